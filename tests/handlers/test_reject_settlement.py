"""RejectSettlement: the end of a settlement that could not be held, with the reason on record."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from settlement.model.errors import IdempotencyConflict, InvalidRequest, StepFenced
from settlement.model.status import Status
from tests.handlers.calls import (
    CLAIMED_AT,
    LATER_AT,
    MALFORMED_SETTLEMENTS,
    WIRE,
    Calls,
)

MESSAGE = "payer: the account has too little available for this amount"
ERROR = {
    "Error": "InsufficientFunds",
    "Cause": json.dumps(
        {"errorMessage": MESSAGE, "errorType": "InsufficientFunds", "requestId": "1", "stackTrace": []}
    ),
}
FAILURE = {"step": "hold", "error": "InsufficientFunds", "cause": MESSAGE}
REJECTED = WIRE | {
    "status": "REJECTED",
    "escrow": "0.00",
    "steps": [],
    "reversed": [],
    "failure": FAILURE,
    "replayed": False,
    "claimed_at": CLAIMED_AT,
    "finished_at": LATER_AT,
}


def test_the_first_call_records_step_error_and_the_message_out_of_the_cause(
    calls: Calls, later: Callable[[], None]
) -> None:
    calls.before("HoldFunds")
    later()

    assert calls("RejectSettlement", error=ERROR) == REJECTED

    row = calls.row()
    assert (row["status"], row["failure"], row["finished_at"]) == ("REJECTED", FAILURE, LATER_AT)
    assert "gsi1pk" not in row
    assert calls.ledger.rows()[0]["available"] == 10_000


def test_a_refused_hold_is_rejected_with_the_very_message_that_refused_it(calls: Calls) -> None:
    calls.ledger.open("alice", 4819)
    calls("ClaimKey")
    with pytest.raises(Exception, match=f"^{MESSAGE}$") as refusal:
        calls("HoldFunds")
    cause = json.dumps({"errorMessage": str(refusal.value), "errorType": refusal.type.__name__})

    rejected = calls("RejectSettlement", error={"Error": refusal.type.__name__, "Cause": cause})

    assert rejected["failure"] == FAILURE


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ({"Error": "States.Timeout", "Cause": ""}, ""),
        ({"Error": "States.Timeout"}, ""),
        ({"Error": "Lambda.Unknown", "Cause": "The function exited"}, "The function exited"),
        ({"Error": "Lambda.Unknown", "Cause": '{"no": "message"}'}, '{"no": "message"}'),
        ({"Error": "Lambda.Unknown", "Cause": '["errorMessage"]'}, '["errorMessage"]'),
        ({"Error": "Lambda.Unknown", "Cause": '"errorMessage"'}, '"errorMessage"'),
        ({"Error": "Lambda.Unknown", "Cause": "null"}, "null"),
        ({"Error": "Lambda.Unknown", "Cause": "x" * 32_768}, "x" * 500),
        ({"Error": "E", "Cause": json.dumps({"errorMessage": "ä" * 501})}, "ä" * 500),
    ],
    ids=range(9),
)
def test_any_cause_is_kept_as_text_of_bounded_length(calls: Calls, error: dict[str, str], cause: str) -> None:
    calls.before("HoldFunds")

    result = calls("RejectSettlement", error=error)

    assert result["failure"] == {"step": "hold", "error": error["Error"], "cause": cause}
    assert calls.row()["failure"] == result["failure"]


def test_a_second_rejection_keeps_the_first_failure(calls: Calls, later: Callable[..., None]) -> None:
    calls.before("HoldFunds")
    later()
    calls("RejectSettlement", error=ERROR)
    later(days=30)

    with calls.writes_nothing():
        assert calls("RejectSettlement", error={"Error": "AccountInLimbo", "Cause": "later"}) == REJECTED


@pytest.mark.parametrize("rejected_before", [False, True])
def test_other_content_is_refused(calls: Calls, rejected_before: bool) -> None:
    calls.before("HoldFunds")
    if rejected_before:
        calls("RejectSettlement", error=ERROR)

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls("RejectSettlement", WIRE | {"amount": "48.21"}, error=ERROR)


@pytest.mark.parametrize("state", ["HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"])
def test_nothing_is_rejected_once_something_is_held(calls: Calls, state: str) -> None:
    calls.after(state)

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls("RejectSettlement", error=ERROR)


@pytest.mark.parametrize("status", [Status.SETTLED, Status.COMPENSATING, Status.COMPENSATED, Status.LIMBO])
def test_nothing_is_rejected_past_processing(calls: Calls, status: Status) -> None:
    calls.before("HoldFunds")
    calls.alter(status=status)

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls("RejectSettlement", error=ERROR)


def test_a_key_that_was_never_claimed_is_not_rejected(calls: Calls) -> None:
    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls("RejectSettlement", error=ERROR)


def test_a_hold_that_comes_after_the_rejection_moves_nothing(calls: Calls) -> None:
    calls.before("HoldFunds")
    calls("RejectSettlement", error=ERROR)

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls("HoldFunds")


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("settlement", "message"), MALFORMED_SETTLEMENTS)
def test_a_malformed_settlement_is_refused(calls: Calls, settlement: Any, message: str) -> None:
    calls.before("HoldFunds")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls("RejectSettlement", settlement, error=ERROR)
