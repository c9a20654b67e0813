from typing import Any

import pytest

from handlers import _dependencies
from settlement.core.ledger import keys
from settlement.core.model.errors import (
    InvalidRequest,
    SettlementNotFound,
    StartUnavailable,
    StoreUnavailable,
)
from tests.handlers.conftest import Calls
from tests.world.constants import EXECUTION_ARN, KEY, NONCE, REJECTED_BY_KYC, WIRE
from tests.world.services import execution, throttled

OWNER = execution("compensation-1")
NOTHING = {"key": KEY, "action": "none", "execution": None}


def took(action: str, name: str) -> dict[str, str]:
    return {"key": KEY, "action": action, "execution": f"{KEY}-{name}-{NONCE}"}


def test_only_the_ordered_settlement_is_resumed_before_its_time(calls: Calls) -> None:
    calls.after("HoldFunds")
    calls.ledger.put(calls.row() | keys.settlement("order-2026-000999"))
    calls.counted()

    assert calls.recover_now() == took("settle", "r1")

    assert calls.step_functions.started == [("SettlementStandard", f"{KEY}-r1-{NONCE}", WIRE)]
    assert (calls.row()["owner"], calls.row()["gsi1sk"]) == (f"{KEY}-r1-{NONCE}", "2026-11-20T12:01:00.123Z")
    assert calls.counted() == {"StepCalled": 1, "RecoveredBySettlement": 1}


def test_a_settlement_past_its_deadline_is_reversed(calls: Calls) -> None:
    calls.after("HoldFunds")
    calls.alter(gsi1sk=calls.row()["deadline_at"])
    calls.later(minutes=15)

    assert calls.recover_now() == took("compensate", "c1")


def test_a_finished_settlement_is_left_alone(calls: Calls) -> None:
    calls.after("CollectFee")
    calls.counted()

    with calls.writes_nothing():
        assert calls.recover_now() == NOTHING

    assert (calls.step_functions.called, calls.counted()) == ([], {"StepCalled": 1})
    assert calls.order("recover", {"key": KEY, "by": "ops"}) == NOTHING
    assert calls.functions.sent == []


def test_a_settlement_whose_review_begins_meanwhile_is_left_alone(calls: Calls) -> None:
    calls.after("HoldFunds")
    calls.meanwhile(_dependencies.store, "update", lambda: calls.alter(review="ver_1"))

    assert calls.recover_now() == NOTHING

    assert (calls.step_functions.called, calls.row()["owner"]) == ([], "execution-1")


def test_a_reversal_is_resumed_unless_its_execution_runs(calls: Calls) -> None:
    calls.after("HoldFunds")
    calls.begin(error=REJECTED_BY_KYC)
    calls.step_functions.add(execution("compensation-1"))
    assert calls.recover_now() == NOTHING
    calls.step_functions.end(execution("compensation-1"))

    assert calls.recover_now() == took("compensate", "c1")
    assert calls.recover_now() == NOTHING

    assert calls.step_functions.started == [("Compensation", f"{KEY}-c1-{NONCE}", {"settlement": WIRE})]


def test_a_case_alerts_at_once_unless_its_execution_waits(calls: Calls) -> None:
    calls.fall()
    calls("AwaitResolution", token="AQC", execution_arn=EXECUTION_ARN)
    calls.step_functions.add(EXECUTION_ARN)
    with calls.writes_nothing():
        assert calls.recover_now() == NOTHING
    calls.step_functions.end(EXECUTION_ARN)

    assert calls.recover_now() == took("alert", "c1")
    calls.step_functions.end(execution(f"{KEY}-c1-{NONCE}"))
    assert calls.recover_now() == took("alert", "c2")  # a person does not wait for the backoff


@pytest.mark.parametrize("key", [None, 7, "", KEY + "\n", "k" * 65, "order#2026#000101", [KEY]])
def test_an_invalid_key_is_refused_with_its_pattern(calls: Calls, key: Any) -> None:
    calls.after("HoldFunds")
    calls.counted()

    expected = r"^key: must be a string that matches \^\[A-Za-z0-9_-\]\{16,64\}\$$"
    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=expected):
        calls.recover_now(key)

    assert (calls.step_functions.called, calls.counted()) == ([], {"StepCalled": 1, "InvalidRequest": 1})


def test_an_unclaimed_key_is_not_found(calls: Calls) -> None:
    with calls.writes_nothing(), pytest.raises(SettlementNotFound, match=r"^key: no request has claimed it$"):
        calls.recover_now()

    assert calls.counted() == {"StepCalled": 1, "SettlementNotFound": 1}


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ("describe_execution", f"{OWNER}: not described: ClientError"),
        ("start_execution", f"{KEY}-c1-{NONCE}: not started: ClientError"),
    ],
)
def test_the_call_fails_if_step_functions_does_not_answer(calls: Calls, operation: str, message: str) -> None:
    calls.after("HoldFunds")
    calls.begin(error=REJECTED_BY_KYC)
    calls.step_functions.failing[operation] = throttled(operation)
    calls.counted()

    with pytest.raises(StartUnavailable, match=f"^{message}$"):
        calls.recover_now()

    assert calls.counted() == {"StepCalled": 1, "StartUnavailable": 1}


def test_the_call_fails_if_the_table_does_not_answer(calls: Calls) -> None:
    calls.after("HoldFunds")

    with calls.fails("read", StoreUnavailable("DynamoDB: x")), pytest.raises(StoreUnavailable):
        calls.recover_now()
