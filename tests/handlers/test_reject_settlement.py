import json
from typing import Any

import pytest

from handlers import _dependencies
from settlement.core.model.errors import AlreadyClaimed, StepFenced
from settlement.core.model.status import Status
from tests.handlers.conftest import Calls
from tests.unit.states import next_of
from tests.world.constants import CLAIMED_AT, KEY, LATER_AT, SPENT, WIRE, WITHOUT_FEE

MESSAGE = "payer: the account has too little available for this amount"
FAILURE = {"step": "hold", "error": "InsufficientFunds", "cause": MESSAGE}
REJECTED = WIRE | {
    "status": "REJECTED",
    "escrow": "0.00",
    "steps": [],
    "reversed": [],
    "failure": FAILURE,
    "next": next_of(Status.REJECTED, FAILURE),
    "replayed": False,
    "claimed_at": CLAIMED_AT,
    "finished_at": LATER_AT,
}
BLOCKED = {"Error": "AccountInLimbo", "Cause": "later"}


def refused_hold(calls: Calls, execution: str = "execution-1") -> Any:
    """Try an unfunded hold; return its error in the machine's form."""
    calls.ledger.open("alice", 4819)
    calls.ledger.open("bob", 500)
    with pytest.raises(Exception, match=f"^{MESSAGE}$") as refusal:
        calls("HoldFunds", execution=execution)
    cause = json.dumps({"errorMessage": str(refusal.value), "errorType": refusal.typename, "stackTrace": []})
    return {"Error": refusal.typename, "Cause": cause}


def test_a_refused_hold_rejects_the_key_with_its_own_message(calls: Calls) -> None:
    error = refused_hold(calls)
    calls.later()
    calls.counted()

    assert calls("RejectSettlement", error=error) == REJECTED | {"claimed_at": LATER_AT}

    assert (calls.row()["owner"], calls.row()["failure"]) == ("execution-1", FAILURE)
    assert calls.counted() == {"StepCalled": 1, "Rejected": 1}


@pytest.mark.parametrize("claimed", [False, True])
def test_the_first_rejection_answers_every_later_call(calls: Calls, claimed: bool) -> None:
    owner = calls.claimed() if claimed else "execution-1"
    error = refused_hold(calls, owner)
    calls.later()
    first = calls("RejectSettlement", execution=owner, error=error)
    calls.later(days=30)
    calls.counted()
    calls.ledger.open("alice", 10_000)

    with calls.writes_nothing():
        assert calls("RejectSettlement", execution=owner, error=BLOCKED) == first
        with pytest.raises(AlreadyClaimed):
            calls("HoldFunds", execution=owner)

    assert "Rejected" not in calls.counted()


def test_a_queue_claimed_key_is_rejected_by_its_own_execution(calls: Calls) -> None:
    owner = calls.claimed()
    error = refused_hold(calls, owner)
    before = calls.row()
    calls.later()
    calls.counted()

    assert calls("RejectSettlement", execution=owner, error=error) == REJECTED

    kept = {name: before[name] for name in before if name not in ("gsi1pk", "gsi1sk")}
    assert calls.row() == kept | {
        "status": "REJECTED",
        "failure": FAILURE,
        "finished_at": LATER_AT,
        "sequence": 2,
    }
    assert calls.counted() == {"StepCalled": 1, "Rejected": 1}


def test_a_key_claimed_meanwhile_by_another_execution_is_not_rejected(calls: Calls) -> None:
    error = refused_hold(calls)
    owner = calls.claimed()
    calls.counted()

    message = f"^key: {KEY} is PROCESSING, and not for this execution to run$"
    with calls.writes_nothing(), pytest.raises(AlreadyClaimed, match=message):
        calls("RejectSettlement", error=error)

    assert calls.counted() == {"StepCalled": 1, "AlreadyClaimed": 1}
    assert calls("HoldFunds", execution=owner)["settlement"] == WIRE


@pytest.mark.parametrize("held", [False, True])
def test_another_executions_rejection_is_reported_as_a_replay(calls: Calls, held: bool) -> None:
    if held:
        calls.after("HoldFunds")
    else:
        calls("RejectSettlement", error=refused_hold(calls))
    before = calls.report()
    calls.later()
    calls.counted()

    status = "PROCESSING" if held else "REJECTED"
    with calls.writes_nothing():
        with pytest.raises(AlreadyClaimed, match=f"^key: {KEY} is {status}, ") as refusal:
            calls("RejectSettlement", execution="execution-2", error=BLOCKED)
        error = {"Error": refusal.typename, "Cause": json.dumps({"errorMessage": str(refusal.value)})}
        assert calls.report(execution="execution-2", **error) == before | {"replayed": True}

    assert calls.counted() == {"StepCalled": 2, "AlreadyClaimed": 1}


def test_a_compensations_tombstone_is_not_returned_as_rejection(calls: Calls) -> None:
    error = refused_hold(calls)
    calls.begin(error=error)

    with calls.writes_nothing(), pytest.raises(AlreadyClaimed, match="is REJECTED"):
        calls("RejectSettlement", error=error)


def test_a_claim_that_was_held_meanwhile_is_not_rejected(calls: Calls) -> None:
    """A slow earlier try, whose call Lambda has ended, makes the hold, because the payer now has funds."""
    owner = calls.claimed()
    calls.meanwhile(_dependencies.store, "update", lambda: calls("HoldFunds", execution=owner))

    with pytest.raises(StepFenced, match=r"^reject: the settlement is PROCESSING with steps \[hold\]"):
        calls("RejectSettlement", execution=owner, error=SPENT)

    assert (calls.row()["status"], calls.row()["escrow"]) == ("PROCESSING", 4820)


def test_an_omitted_fee_is_taken_from_claim_or_schedule(calls: Calls) -> None:
    calls("RejectSettlement", WIRE | {"fee": "1.00"}, error=SPENT)

    with calls.writes_nothing():
        assert calls("RejectSettlement", WITHOUT_FEE, error=SPENT)["fee"] == "1.00"
    other = WITHOUT_FEE | {"key": "order-2026-000102"}
    assert calls("RejectSettlement", other, error=SPENT)["fee"] == "0.48"
