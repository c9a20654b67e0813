"""CollectFee: the last movement, and the outcome of the whole settlement, in one call."""

import pytest

from settlement.model.errors import StepFenced
from tests.handlers.conftest import Later
from tests.world.constants import CLAIMED_AT, LATER_AT, WIRE
from tests.world.functions import Calls


@pytest.mark.parametrize("fee", ["0.48", "0.00"])
def test_the_first_call_settles_and_its_outcome_is_that_of_a_later_report(
    calls: Calls, later: Later, fee: str
) -> None:
    settlement = WIRE | {"fee": fee}
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("bob", 500)
    for state in ("ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds"):
        calls(state, settlement)
    later()

    outcome = calls("CollectFee", settlement, claimed_at=CLAIMED_AT)

    assert outcome == settlement | {
        "status": "SETTLED",
        "escrow": "0.00",
        "steps": ["hold", "verify", "release", "fee"],
        "reversed": [],
        "failure": None,
        "replayed": False,
        "claimed_at": CLAIMED_AT,
        "finished_at": LATER_AT,
    }
    reported = calls.report(settlement, replayed=True)
    assert outcome | {"replayed": True} == reported
    assert list(outcome) == list(reported)
    assert (calls.row()["status"], calls.row()["escrow"]) == ("SETTLED", 0)


def test_no_fee_is_collected_before_the_release(calls: Calls) -> None:
    calls.before("ReleaseFunds")

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls("CollectFee", claimed_at=CLAIMED_AT)


def test_the_fee_is_collected_after_the_deadline_too(calls: Calls, later: Later) -> None:
    calls.before("CollectFee")
    later(days=30)

    assert calls("CollectFee", claimed_at=CLAIMED_AT)["status"] == "SETTLED"
