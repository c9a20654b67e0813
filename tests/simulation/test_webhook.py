"""The webhook may come at any time and repeatedly: the first verdict counts, and has one effect."""

from collections.abc import Callable

import pytest

from tests.handlers.calls import KEY
from tests.simulation import picture
from tests.simulation.decided import ENDS, assert_ended
from tests.simulation.outside import DECIDED, Killed, Outside, killed, unreachable
from tests.simulation.world import BOTH, World
from tests.support.interpreter import Execution
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED

OTHER = {"APPROVED": "REJECTED", "REJECTED": "APPROVED"}
TOO_EARLY = {"ClaimKey": 404, "IsReplay": 409, "HoldFunds": 409}
PLACES = [*TOO_EARLY, "VerifyKyc", "IsInReview", "ReportOutcome"]
ANSWERS = {"approved": APPROVED, "rejected": REJECTED, "in review": IN_REVIEW}


@pytest.mark.parametrize("decision", ENDS)
def test_the_same_event_twice_has_one_effect_and_another_event_none(
    world: World, outside: Outside, decision: str
) -> None:
    world.provider.answer = IN_REVIEW
    outside.in_review()

    statuses = [outside.webhook(decision) for _ in range(2)]
    world.drain()
    before = world.ledger.rows()
    statuses += [outside.webhook(decision), outside.webhook(decision, "evt-2")]
    statuses += [outside.webhook(OTHER[decision], "evt-3"), outside.webhook(OTHER[decision])]
    world.drain()

    assert statuses == [200, 200, 200, 200, 409, 409]
    assert_ended(world, outside, decision)
    assert outside.machines.started == [DECIDED]
    assert outside.markers() == ["KYC_EVENT#evt-1"]
    assert world.ledger.rows() == before


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("decision", ENDS)
@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize("place", PLACES)
def test_a_webhook_before_any_state_of_the_first_execution_counts_once_money_is_held(
    world: World, outside: Outside, place: str, machine: str, decision: str
) -> None:
    world.open_both()
    world.provider.answer = IN_REVIEW
    statuses = []
    world.before[place] = lambda: statuses.append(outside.webhook(decision))

    world.settle(machine)
    assert statuses == [TOO_EARLY.get(place, 200)]
    if place in TOO_EARLY:
        assert (world.picture(), outside.markers()) == (picture.of("PROCESSING", ["hold"]), [])
        assert outside.webhook(decision) == 200
        world.drain()

    assert_ended(world, outside, decision)
    assert world.machines.executions[0].status == "SUCCEEDED"
    assert len(world.provider.asked) == (place != "VerifyKyc")


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("decision", ENDS)
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("machine", BOTH)
def test_a_webhook_that_comes_before_the_answer_to_our_request_counts(
    world: World, outside: Outside, machine: str, answer: str, decision: str
) -> None:
    world.open_both()
    world.provider.answer = ANSWERS[answer]
    statuses = []
    world.provider.meanwhile = lambda: statuses.append(outside.webhook(decision))

    execution = world.settle(machine)

    assert statuses == [200]
    assert_ended(world, outside, decision)
    assert execution.status == "SUCCEEDED"
    assert "review" not in world.row()
    assert world.provider.asked == [KEY]


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("order", ["the first, then the other", "the other, then the first", "in step"])
@pytest.mark.parametrize("decision", ENDS)
@pytest.mark.parametrize("machine", BOTH)
def test_the_first_execution_and_the_one_of_the_webhook_commit_each_step_once(
    world: World, outside: Outside, machine: str, decision: str, order: str
) -> None:
    world.open_both()
    world.provider.answer = IN_REVIEW
    world.provider.meanwhile = lambda: outside.webhook(decision)
    first = world.start(machine).run(until="VerifyKyc")
    first.advance()

    both = [first, outside.resumed()]
    if order == "in step":
        while any(one.status == "RUNNING" for one in both):
            for one in both:
                if one.status == "RUNNING":
                    one.advance()
    else:
        for one in both if order.startswith("the first") else both[::-1]:
            one.run()
    world.drain()

    assert [one.status for one in both] == ["SUCCEEDED", "SUCCEEDED"]
    assert world.picture() == ENDS[decision]
    assert world.provider.asked == [KEY]


def deliveries(outside: Outside, first: str) -> Callable[[Execution], None]:
    """Deliver the event again, another event with the same decision, and one with the opposite."""

    def deliver(execution: Execution) -> None:
        told = [(first, "evt-1"), (first, "evt-2"), (OTHER[first], "evt-3"), (OTHER[first], "evt-1")]
        assert [outside.webhook(*one) for one in told] == [200, 200, 409, 409]

    return deliver


@pytest.mark.parametrize("decision", ENDS)
@pytest.mark.parametrize("machine", BOTH)
def test_events_between_every_two_states_after_the_first_change_nothing(
    world: World, outside: Outside, machine: str, decision: str
) -> None:
    world.open_both()
    world.provider.answer = IN_REVIEW

    def begin() -> None:
        assert outside.webhook(decision) == 200
        world.always = deliveries(outside, decision)

    world.provider.meanwhile = begin

    world.settle(machine)

    assert_ended(world, outside, decision)
    assert outside.machines.started == [DECIDED]
    assert outside.markers() == ["KYC_EVENT#evt-1"]


@pytest.mark.parametrize("decision", ENDS)
def test_two_webhooks_at_once_have_one_effect(world: World, outside: Outside, decision: str) -> None:
    world.provider.answer = IN_REVIEW
    outside.in_review()
    inner: list[int] = []
    world.meanwhile("transact", lambda: inner.append(outside.webhook(decision, "evt-2")))

    outer = outside.webhook(decision)
    world.drain()

    assert [*inner, outer] == [200, 200]
    assert_ended(world, outside, decision)
    assert outside.markers() == ["KYC_EVENT#evt-2"]


def test_the_first_of_two_contradictory_webhooks_at_once_counts(world: World, outside: Outside) -> None:
    world.provider.answer = IN_REVIEW
    outside.in_review()
    inner: list[int] = []
    world.meanwhile("transact", lambda: inner.append(outside.webhook("REJECTED", "evt-2")))

    outer = outside.webhook("APPROVED")
    world.drain()

    assert [*inner, outer] == [200, 409]
    assert_ended(world, outside, "REJECTED")


def test_a_decision_on_another_verification_is_refused(world: World, outside: Outside) -> None:
    world.provider.answer = IN_REVIEW
    outside.in_review()
    before = world.ledger.rows()

    assert outside.webhook(reference="ver_2") == 409

    assert world.ledger.rows() == before
    assert outside.webhook() == 200
    world.drain()
    assert_ended(world, outside, "APPROVED")


@pytest.mark.parametrize("decision", ENDS)
@pytest.mark.parametrize("starts", [False, True])
@pytest.mark.parametrize("befalls", [unreachable, killed])
def test_the_next_delivery_repairs_a_webhook_that_died_at_the_start(
    world: World, outside: Outside, befalls: Callable[[], None], starts: bool, decision: str
) -> None:
    world.provider.answer = IN_REVIEW
    outside.in_review()
    setattr(outside.machines, "after" if starts else "before", befalls)

    if befalls is killed:
        with pytest.raises(Killed):
            outside.webhook(decision)
    else:
        assert outside.webhook(decision) == 503
    assert outside.machines.started == [DECIDED] * starts
    outside.machines.before = outside.machines.after = lambda: None

    assert outside.webhook(decision) == 200
    world.drain()

    assert_ended(world, outside, decision)
    assert outside.machines.started == [DECIDED]


def test_a_webhook_that_dies_before_its_transaction_leaves_no_marker(world: World, outside: Outside) -> None:
    world.provider.answer = IN_REVIEW
    outside.in_review()
    before = world.ledger.rows()
    world.meanwhile("transact", killed)

    with pytest.raises(Killed):
        outside.webhook()

    assert world.ledger.rows() == before
    assert outside.webhook() == 200
    world.drain()
    assert_ended(world, outside, "APPROVED")
