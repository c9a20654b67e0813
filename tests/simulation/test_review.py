"""A settlement resumes after a review in time, and is refunded after a late one; executions may be killed."""

import pytest

from tests.handlers.calls import KEY
from tests.simulation import picture
from tests.simulation.decided import ENDS, VERDICT
from tests.simulation.outside import DECIDED, Outside
from tests.simulation.picture import STEPS
from tests.simulation.world import BOTH, STARTING, Fault, World
from tests.support.kyc import IN_REVIEW

WAYS = {
    "APPROVED": [
        "ClaimKey",
        "IsReplay",
        "HoldFunds",
        "VerifyKyc",
        "IsInReview",
        "ReleaseFunds",
        "CollectFee",
    ],
    "REJECTED": ["ClaimKey", "IsReplay", "HoldFunds", "VerifyKyc", "Compensate", "ReportOutcome"],
}
"""The states of the execution that the webhook starts."""

CALLS = [(name, state) for name, way in WAYS.items() for state in way if not state.startswith("Is")]
FUNCTIONS = [(name, state) for name, state in CALLS if state != "Compensate"]
UNWINDING = ["BeginCompensation", "IsDecided", "RefundFee", "ReclaimFunds", "VoidHold", "ReportOutcome"]


@pytest.fixture(autouse=True)
def _in_review(world: World) -> None:
    world.provider.answer = IN_REVIEW


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize("decision", ENDS)
def test_a_review_ends_as_the_provider_decides(
    world: World, outside: Outside, decision: str, machine: str
) -> None:
    outside.in_review(machine)
    world.pass_time(hours=23)

    assert outside.webhook(decision) == 200
    world.drain()

    resumed = outside.resumed()
    assert (resumed.status, resumed.data["status"]) == ("SUCCEEDED", ENDS[decision].status)
    assert resumed.data["replayed"] is False
    assert resumed.visited == WAYS[decision]
    assert world.picture() == ENDS[decision]
    owner = f"{KEY}-compensate-1" if decision == "REJECTED" else f"{KEY}-decided"
    assert (world.row()["verdict"], world.row()["owner"]) == (decision, owner)
    assert "review" not in world.row()
    assert world.provider.asked == [KEY]


@pytest.mark.parametrize("machine", BOTH)
def test_a_payment_in_review_is_not_changed_until_the_review_ends(
    world: World, outside: Outside, machine: str
) -> None:
    outside.in_review(machine)
    before = world.ledger.rows()

    for _ in range(12):
        world.pass_time(hours=1, minutes=59)
        outside.recover_all()
    again = world.settle(machine, name="again")

    assert (again.data["status"], again.data["replayed"]) == ("PROCESSING", True)
    assert world.ledger.rows() == before
    assert world.provider.asked == [KEY]


@pytest.mark.parametrize("machine", BOTH)
def test_an_expired_review_refunds_the_payer(world: World, outside: Outside, machine: str) -> None:
    outside.in_review(machine)
    world.pass_time(hours=25)

    outside.recover_all()

    assert world.picture() == picture.compensated(["hold"])
    assert "the review has not ended in time" in world.row()["failure"]["cause"]
    assert {name: world.available(name) for name in STARTING} == STARTING
    before = world.picture()
    assert [outside.webhook(decision) for decision in ENDS] == [409, 409]
    assert (world.picture(), outside.markers()) == (before, [])
    assert outside.machines.started == [f"{KEY}-compensate-1"]


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("decision", "state"), [(name, state) for name in WAYS for state in WAYS[name]])
def test_a_resumed_execution_that_is_killed_anywhere_loses_no_money(
    world: World, outside: Outside, decision: str, state: str
) -> None:
    """Its name is taken, so that the webhook cannot start it again: recovery has to."""
    outside.in_review()
    assert outside.webhook(decision) == 200
    outside.resumed().run(until=state).abort()
    world.drain()
    killed_with = world.picture()

    assert outside.webhook(decision) == 200
    world.drain()
    assert world.picture() == killed_with
    outside.until_deadline()
    outside.recover_all()

    if state == "CollectFee":
        assert killed_with == picture.of("PROCESSING", STEPS[:3])
        assert world.picture() == picture.of("SETTLED", STEPS)
        assert outside.machines.started == [DECIDED, f"{KEY}-r2"]
    else:
        committed = STEPS[:2] if decision == "APPROVED" else STEPS[:1]
        assert world.picture() == picture.compensated(committed, VERDICT)
        assert {name: world.available(name) for name in STARTING} == STARTING
    assert world.provider.asked == [KEY]


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize(("decision", "state"), FUNCTIONS)
def test_a_transient_fault_has_no_effect_on_a_resumed_execution(
    world: World, outside: Outside, decision: str, state: str, fault: Fault, times: int
) -> None:
    outside.in_review()
    world.strike(state, fault, times)

    assert outside.webhook(decision) == 200
    world.drain()

    assert outside.resumed().data["status"] == ENDS[decision].status
    assert world.picture() == ENDS[decision]
    assert world.provider.asked == [KEY]


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize(("decision", "state"), FUNCTIONS)
def test_a_permanent_fault_loses_no_money(
    world: World, outside: Outside, decision: str, state: str, fault: Fault
) -> None:
    outside.in_review()
    world.strike(state, fault)

    assert outside.webhook(decision) == 200
    world.drain()
    assert outside.resumed().error["Error"] == "SettlementStalled"
    world.faults.clear()
    outside.until_deadline()
    outside.recover_all()

    if state == "CollectFee" or (state == "ReleaseFunds" and fault.commits):
        assert world.picture() == picture.of("SETTLED", STEPS)
    else:
        committed = STEPS[:2] if decision == "APPROVED" else STEPS[:1]
        assert world.picture() == picture.compensated(committed, VERDICT)
    assert world.provider.asked == [KEY]


@pytest.mark.parametrize("state", UNWINDING)
def test_a_compensation_of_an_expired_review_may_be_killed_anywhere(
    world: World, outside: Outside, state: str
) -> None:
    outside.in_review()
    world.pass_time(hours=25)
    assert outside.recover() == []
    world.machines.executions[-1].run(until=state).abort()

    world.pass_time(minutes=1)
    outside.recover_all()

    numbers = [1] if state == "ReportOutcome" else [1, 2]  # before that state it has ended
    assert outside.compensations() == [f"{KEY}-compensate-{number}" for number in numbers]
    assert world.picture() == picture.compensated(["hold"])
    assert {name: world.available(name) for name in STARTING} == STARTING
