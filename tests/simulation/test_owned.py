"""A webhook makes another execution the owner: the former owner does not reverse its settlement."""

import pytest

from settlement.model.errors import KycUnavailable
from tests.handlers.calls import KEY
from tests.simulation import picture
from tests.simulation.decided import ENDS, VERDICT, assert_ended, assert_not_abandoned
from tests.simulation.outside import Outside
from tests.simulation.world import BOTH, STANDARD, World
from tests.support.interpreter import Execution
from tests.support.kyc import IN_REVIEW, REJECTED

ANSWERS = {"in review": IN_REVIEW, "rejected": REJECTED, "unavailable": KycUnavailable("kyc: down")}
WITHIN = "within BeginCompensation"
BEFORE = ["VerifyKyc", "Compensate", "BeginCompensation", WITHIN]
TOO_LATE = ["IsDecided", "RefundFee", "ReclaimFunds", "VoidHold", "ReportOutcome"]
PLACES = [("in review", place) for place in ("VerifyKyc", "IsInReview", "ReportOutcome")]
PLACES += [(answer, place) for answer in ("rejected", "unavailable") for place in BEFORE]
CASES = [(*comes, at_once) for comes in PLACES for at_once in (False, True)]
CASES += [("unavailable", place, False) for place in TOO_LATE]
ORDERS = ["first", "resumed", "in step"]


def run_both(world: World, both: list[Execution], order: str) -> None:
    """Run the two, and at last the executions that they have started without waiting."""
    if order == "in step":
        while live := [one for one in both if one.status == "RUNNING"]:
            for one in live:
                one.advance()
    else:
        for one in both if order == "first" else both[::-1]:
            one.run()
    world.drain()


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("decision", ENDS)
@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize("comes", CASES, ids=str)
def test_only_the_owner_reverses_wherever_the_webhook_comes(
    world: World, outside: Outside, comes: tuple[str, str, bool], machine: str, decision: str
) -> None:
    """The execution that it starts runs to its end at once, or only after the first one's end."""
    answer, place, at_once = comes
    world.open_both()
    world.provider.answer = ANSWERS[answer]
    statuses: list[int] = []

    def decide() -> None:
        statuses.append(outside.webhook(decision))
        if at_once and statuses == [200]:
            outside.resumed().run()

    if place == WITHIN:
        world.before["BeginCompensation"] = lambda: world.meanwhile("update", decide)
    else:
        world.before[place] = decide

    world.settle(machine)

    assert_not_abandoned(world)
    assert len(statuses) == 1
    on_record = place != "VerifyKyc" and answer == "rejected"
    if statuses == [409]:
        assert answer != "in review"
        assert world.picture() == picture.compensated(["hold"], VERDICT if on_record else {})
        assert outside.compensations() == [f"{KEY}-compensate-0"]
    elif on_record:
        assert (decision, world.picture()) == ("REJECTED", ENDS["REJECTED"])
    else:
        assert_ended(world, outside, decision)


@pytest.mark.parametrize("decision", ENDS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("machine", BOTH)
def test_a_failure_of_the_first_execution_does_not_affect_the_owner(
    world: World, outside: Outside, machine: str, order: str, decision: str
) -> None:
    """The provider is down for our request, and meanwhile its webhook comes."""
    world.open_both()
    world.provider.answer = ANSWERS["unavailable"]
    world.before["Compensate"] = lambda: outside.webhook(decision)
    first = world.start(machine).run(until="Compensate")
    first.advance()

    run_both(world, [first, outside.resumed()], order)

    assert_ended(world, outside, decision)
    (idle,) = (one for one in world.machines.executions if one.name == f"{KEY}-compensate-0")
    assert idle.status == "SUCCEEDED"
    if decision == "APPROVED" or order == "first":
        assert idle.visited == ["BeginCompensation", "IsDecided", "ReportOutcome"]


@pytest.mark.parametrize("name", ["execution-1", f"{KEY}-decided"])
def test_a_late_request_for_the_reversal_is_carried_out_for_the_owner_alone(
    world: World, outside: Outside, name: str
) -> None:
    """The same input without an owner comes from a person or from recovery, and is always carried out."""
    world.provider.answer = IN_REVIEW
    outside.in_review(STANDARD)
    assert outside.webhook("APPROVED") == 200
    outside.resumed().run(until="ReleaseFunds")
    before = world.ledger.rows()

    world.compensation(owner=name, error={"Error": "CapExceeded", "Cause": "x"}).run()

    if name == "execution-1":
        assert world.ledger.rows() == before
    else:
        assert world.picture() == picture.compensated(["hold", "verify"])
    world.drain()
    assert_not_abandoned(world)
    assert world.row()["escrow"] == 0
