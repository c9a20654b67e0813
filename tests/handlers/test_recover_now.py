"""RecoverStalled for the one settlement that a person names: the same path, now, and an answer."""

from collections.abc import Callable
from typing import Any

import pytest

from handlers import _runtime
from settlement.errors import (
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
def test_what_goes_forward_is_resumed_though_it_is_not_due(
    calls: Calls, starts: Starts, counted: Counted, state: str
) -> None:
    calls.after(state)
    counted()

    assert calls.recover_now() == took("settle", "r1")

    assert starts.made == [("SettlementStandard", f"{KEY}-r1", WIRE)]
    assert (calls.row()["owner"], calls.row()["gsi1sk"]) == (f"{KEY}-r1", "2026-11-20T12:01:00.123Z")
    assert counted() == {"StepCalled": 1, "RecoveredBySettlement": 1}


def test_what_is_past_its_deadline_is_given_back(calls: Calls, starts: Starts, later: Later) -> None:
    calls.after("HoldFunds")
    later(minutes=15)

    assert calls.recover_now() == took("compensate", "compensate-1")

    calls.unwind(calls.begin(starts.made[0][2]))
    assert calls.row()["status"] == "COMPENSATED"


@pytest.mark.parametrize("state", ["CollectFee", "VoidHold", "RejectSettlement"])
def test_what_is_finished_needs_nothing(calls: Calls, starts: Starts, counted: Counted, state: str) -> None:
    if state == "CollectFee":
        calls.after(state)
    elif state == "VoidHold":
        calls.after("HoldFunds")
        calls.unwind(calls.begin(error=REJECTED_BY_KYC))
    else:
        calls.begin(error=REJECTED_BY_KYC)  # of a key that nobody has claimed
    counted()

    with calls.writes_nothing():
        assert calls.recover_now() == NOTHING

    assert (starts.asked, starts.described, counted()) == (0, [], {"StepCalled": 1})


def test_what_is_in_review_waits_for_the_review_s_end(parked: Calls, starts: Starts, later: Later) -> None:
    with parked.writes_nothing():
        assert parked.recover_now() == NOTHING
    later(days=1)

    assert parked.recover_now() == took("compensate", "compensate-1")

    assert starts.names == [f"{KEY}-compensate-1"]


def test_a_reversal_that_is_driven_needs_nothing_and_one_that_is_not_is_driven_on(
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


def test_a_case_that_waits_needs_nothing_and_one_that_nobody_waits_for_is_paged_at_once(
    calls: Calls, starts: Starts
) -> None:
    calls.fall("release")
    calls("AwaitResolution", token="AQC", execution_arn=EXECUTION_ARN)
    starts.running = {EXECUTION_ARN}
    with calls.writes_nothing():
        assert calls.recover_now() == NOTHING
    starts.running = set()

    assert calls.recover_now() == took("page", "compensate-1")
    starts.ended = {execution(f"{KEY}-compensate-1"): "FAILED"}
    assert calls.recover_now() == took("page", "compensate-2")  # a person does not wait for the backoff


def test_twice_at_once_is_one_start_and_the_other_is_told_that_nothing_was_needed(
    calls: Calls, starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.after("HoldFunds")
    before = calls.row()
    assert calls.recover_now() == took("settle", "r1")
    monkeypatch.setattr(_runtime.store, "read", lambda key: before)

    assert calls.recover_now() == NOTHING

    assert starts.names == [f"{KEY}-r1"]


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(
    "key", [None, 7, True, "", "too-short", KEY + "\n", "k" * 65, "order#2026#000101", [KEY], {"key": KEY}]
)
def test_a_key_that_is_none_is_refused_by_what_it_should_be(
    calls: Calls, starts: Starts, counted: Counted, key: Any
) -> None:
    calls.after("HoldFunds")
    counted()

    expected = r"^key: must be a string that matches \^\[A-Za-z0-9_-\]\{16,64\}\$$"
    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=expected):
        calls.recover_now(key)

    assert (starts.asked, counted()) == (0, {"StepCalled": 1, "InvalidRequest": 1})


def test_a_key_that_nobody_has_claimed_is_not_found(calls: Calls, starts: Starts, counted: Counted) -> None:
    with calls.writes_nothing(), pytest.raises(SettlementNotFound, match=r"^key: nobody has claimed it$"):
        calls.recover_now()

    assert (starts.asked, counted()) == (0, {"StepCalled": 1, "SettlementNotFound": 1})


@pytest.mark.parametrize(
    ("where", "expected"),
    [("read", StoreUnavailable), ("describe", StartUnavailable), ("start", StartUnavailable)],
)
def test_whoever_asks_hears_that_a_service_gave_no_answer(
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
        monkeypatch.setattr(_runtime.store, "read", unreachable)
    elif where == "describe":
        starts.not_described = throttled("DescribeExecution")
    else:
        starts.failure = throttled("StartExecution")
    counted()

    with pytest.raises(expected) as raised:
        calls.recover_now()

    assert counted() == {"StepCalled": 1, expected.__name__: 1}
    assert "canary" not in str(raised.value)


def test_one_settlement_alone_is_looked_at(calls: Calls, starts: Starts, later: Later) -> None:
    calls.after("HoldFunds")
    other = WIRE | {"key": "order-2026-000999"}
    calls("ClaimKey", other)
    later(minutes=15)

    calls.recover_now("order-2026-000999")

    assert starts.names == ["order-2026-000999-compensate-1"]
    assert calls.row()["recoveries"] == 0
