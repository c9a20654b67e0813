"""RejectSettlement: the end of a settlement that could not be held, with the reason on record."""

import json

import pytest

from settlement.model.errors import StepFenced
from tests.handlers.conftest import Counted, Later
from tests.world.constants import CLAIMED_AT, LATER_AT, WIRE
from tests.world.functions import Calls

MESSAGE = "payer: the account has too little available for this amount"
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


def test_a_refused_hold_is_rejected_with_the_very_message_that_refused_it_and_the_first_one_stays(
    calls: Calls, later: Later, counted: Counted
) -> None:
    calls.ledger.open("alice", 4819)
    calls("ClaimKey")
    with pytest.raises(Exception, match=f"^{MESSAGE}$") as refusal:
        calls("HoldFunds")
    cause = json.dumps({"errorMessage": str(refusal.value), "errorType": refusal.typename, "stackTrace": []})
    later()
    counted()

    assert calls("RejectSettlement", error={"Error": refusal.typename, "Cause": cause}) == REJECTED

    row = calls.row()
    assert (row["status"], row["failure"], row["finished_at"]) == ("REJECTED", FAILURE, LATER_AT)
    assert "gsi1pk" not in row
    assert counted() == {"StepCalled": 1, "Rejected": 1}
    later(days=30)
    with calls.writes_nothing():
        assert calls("RejectSettlement", error={"Error": "AccountInLimbo", "Cause": "later"}) == REJECTED
        with pytest.raises(StepFenced):
            calls("HoldFunds")
    assert "Rejected" not in counted()


@pytest.mark.parametrize("state", ["HoldFunds", "ReleaseFunds"])
def test_nothing_is_rejected_once_something_is_held(calls: Calls, state: str) -> None:
    calls.after(state)

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls("RejectSettlement", error={"Error": "States.Timeout", "Cause": ""})
