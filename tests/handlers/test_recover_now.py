"""RecoverStalled for one settlement that a person names: the same path, at once, with an answer."""

from collections.abc import Callable
from typing import Any

import pytest

from handlers import _dependencies
from settlement.model.errors import (
    InvalidRequest,
    SettlementError,
    SettlementNotFound,
    StartUnavailable,
    StoreUnavailable,
)
from tests.handlers.calls import EXECUTION_ARN, KEY, REJECTED_BY_KYC, WIRE, Calls
from tests.handlers.conftest import Counted
from tests.handlers.stand_ins import Starts, execution, throttled

Later = Callable[..., None]

NOTHING = {"key": KEY, "action": "none", "execution": None}


def took(action: str, name: str) -> dict[str, str]:
    return {"key": KEY, "action": action, "execution": f"{KEY}-{name}"}


@pytest.mark.parametrize("state", ["ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds"])
def test_a_settlement_in_flight_is_resumed_before_it_is_due(
    calls: Calls, starts: Starts, counted: Counted, state: str
) -> None:
    calls.after(state)
    counted()

    assert calls.recover_now() == took("settle", "r1")

    assert starts.made == [("SettlementStandard", f"{KEY}-r1", WIRE)]
    assert (calls.row()["owner"], calls.row()["gsi1sk"]) == (f"{KEY}-r1", "2026-11-20T12:01:00.123Z")
    assert counted() == {"StepCalled": 1, "RecoveredBySettlement": 1}


def test_a_settlement_past_its_deadline_is_refunded(calls: Calls, starts: Starts, later: Later) -> None:
    calls.after("HoldFunds")
    later(minutes=15)

    assert calls.recover_now() == took("compensate", "compensate-1")

    calls.unwind(calls.begin(starts.made[0][2]))
    assert calls.row()["status"] == "COMPENSATED"


@pytest.mark.parametrize("state", ["CollectFee", "VoidHold", "RejectSettlement"])
def test_a_finished_settlement_needs_nothing(
    calls: Calls, starts: Starts, counted: Counted, state: str
) -> None:
    if state == "CollectFee":
        calls.after(state)
    elif state == "VoidHold":
        calls.after("HoldFunds")
        calls.unwind(calls.begin(error=REJECTED_BY_KYC))
    else:
        calls.begin(error=REJECTED_BY_KYC)  # of an unclaimed key
    counted()

    with calls.writes_nothing():
        assert calls.recover_now() == NOTHING

    assert (starts.asked, starts.described, counted()) == (0, [], {"StepCalled": 1})


def test_a_settlement_in_review_waits_for_the_end_of_the_review(
    in_review: Calls, starts: Starts, later: Later
) -> None:
    with in_review.writes_nothing():
        assert in_review.recover_now() == NOTHING
    later(days=1)

    assert in_review.recover_now() == took("compensate", "compensate-1")

    assert starts.names == [f"{KEY}-compensate-1"]


def test_a_reversal_with_a_running_execution_needs_nothing_and_one_without_is_resumed(
    calls: Calls, starts: Starts
) -> None:
    calls.after("HoldFunds")
    calls.begin(error=REJECTED_BY_KYC)
    starts.running = {execution("compensation-1")}
    assert calls.recover_now() == NOTHING
    assert starts.asked == 0
    starts.running = set()

    assert calls.recover_now() == took("compensate", "compensate-1")
    assert calls.recover_now() == NOTHING

    assert starts.made == [("Compensation", f"{KEY}-compensate-1", {"settlement": WIRE})]


def test_a_case_with_a_waiting_execution_needs_nothing_and_one_without_alerts_at_once(
    calls: Calls, starts: Starts
) -> None:
    calls.fall("release")
    calls("AwaitResolution", token="AQC", execution_arn=EXECUTION_ARN)
    starts.running = {EXECUTION_ARN}
    with calls.writes_nothing():
        assert calls.recover_now() == NOTHING
    starts.running = set()

    assert calls.recover_now() == took("alert", "compensate-1")
    starts.ended = {execution(f"{KEY}-compensate-1"): "FAILED"}
    assert calls.recover_now() == took("alert", "compensate-2")  # a person does not wait for the backoff


def test_two_concurrent_calls_are_one_start_and_the_second_needs_nothing(
    calls: Calls, starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.after("HoldFunds")
    before = calls.row()
    assert calls.recover_now() == took("settle", "r1")
    monkeypatch.setattr(_dependencies.store, "read", lambda key: before)

    assert calls.recover_now() == NOTHING

    assert starts.names == [f"{KEY}-r1"]


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(
    "key", [None, 7, True, "", "too-short", KEY + "\n", "k" * 65, "order#2026#000101", [KEY], {"key": KEY}]
)
def test_an_invalid_key_is_refused_with_its_pattern(
    calls: Calls, starts: Starts, counted: Counted, key: Any
) -> None:
    calls.after("HoldFunds")
    counted()

    expected = r"^key: must be a string that matches \^\[A-Za-z0-9_-\]\{16,64\}\$$"
    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=expected):
        calls.recover_now(key)

    assert (starts.asked, counted()) == (0, {"StepCalled": 1, "InvalidRequest": 1})


def test_an_unclaimed_key_is_not_found(calls: Calls, starts: Starts, counted: Counted) -> None:
    with calls.writes_nothing(), pytest.raises(SettlementNotFound, match=r"^key: no request has claimed it$"):
        calls.recover_now()

    assert (starts.asked, counted()) == (0, {"StepCalled": 1, "SettlementNotFound": 1})


@pytest.mark.parametrize(
    ("where", "expected"),
    [("read", StoreUnavailable), ("describe", StartUnavailable), ("start", StartUnavailable)],
)
def test_the_caller_gets_the_error_of_an_unavailable_service(
    calls: Calls,
    starts: Starts,
    counted: Counted,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    expected: type[SettlementError],
) -> None:
    calls.after("HoldFunds")
    calls.begin(error=REJECTED_BY_KYC)

    def unreachable(key: object) -> None:
        raise StoreUnavailable("DynamoDB: ReadTimeoutError")

    if where == "read":
        monkeypatch.setattr(_dependencies.store, "read", unreachable)
    elif where == "describe":
        starts.not_described = throttled("DescribeExecution")
    else:
        starts.failure = throttled("StartExecution")
    counted()

    with pytest.raises(expected) as raised:
        calls.recover_now()

    assert counted() == {"StepCalled": 1, expected.__name__: 1}
    assert "canary" not in str(raised.value)


def test_only_the_named_settlement_is_looked_at(calls: Calls, starts: Starts, later: Later) -> None:
    calls.after("HoldFunds")
    other = WIRE | {"key": "order-2026-000999"}
    calls("ClaimKey", other)
    later(minutes=15)

    calls.recover_now("order-2026-000999")

    assert starts.names == ["order-2026-000999-compensate-1"]
    assert calls.row()["owner_epoch"] == 0
