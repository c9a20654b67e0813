import pytest

from tests.handlers.conftest import Calls
from tests.world.constants import CLAIMED_AT, LATER_AT, ORDER, REPLAYED, WIRE


@pytest.mark.parametrize("fee", ["0.48", "0.00"])
def test_the_first_call_settles_and_returns_the_final_outcome(calls: Calls, fee: str) -> None:
    settlement = WIRE | {"fee": fee}
    calls.before("HoldFunds")
    calls.run("HoldFunds", "VerifyKyc", "ReleaseFunds", settlement=settlement)
    calls.later()

    outcome = calls("CollectFee", settlement, claimed_at=CLAIMED_AT)

    reported = calls.report(settlement, **REPLAYED)
    assert outcome | {"replayed": True} == reported
    assert list(outcome) == list(reported)
    assert (outcome["fee"], outcome["replayed"], outcome["finished_at"]) == (fee, False, LATER_AT)
    row = calls.row()
    assert (row["status"], row["escrow"], row["fee_at"]) == ("SETTLED", 0, LATER_AT)
    assert not {"gsi1pk", "gsi1sk"} & row.keys()


def test_a_late_call_reports_a_reversal_ordered_since(calls: Calls) -> None:
    calls.after("CollectFee")
    calls.later()
    found = calls.begin(reversal=ORDER)
    with calls.writes_nothing():
        late = calls("CollectFee", claimed_at=CLAIMED_AT)
        assert late == calls.report()
    assert (late["status"], late["failure"]["error"]) == ("COMPENSATING", "ReversalRequested")
    calls.unwind(found)

    with calls.writes_nothing():
        late = calls("CollectFee", claimed_at=CLAIMED_AT)

    assert late == calls.report()
    assert (late["status"], late["escrow"], late["replayed"]) == ("COMPENSATED", "0.00", False)
    assert late["next"]["action"] == "nothing"
    assert (late["reversed"], late["finished_at"]) == (["fee", "hold", "release"], LATER_AT)


def test_the_fee_is_collected_after_the_deadline_too(calls: Calls) -> None:
    calls.before("CollectFee")
    calls.later(days=30)

    assert calls("CollectFee", claimed_at=CLAIMED_AT)["status"] == "SETTLED"
