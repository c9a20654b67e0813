"""A verdict that comes while the settlement expires, or by another way than the webhook, loses no money."""

import pytest

from tests.handlers.calls import KEY, WIRE
from tests.simulation import picture
from tests.simulation.decided import ENDS, assert_ended
from tests.simulation.outside import DECIDED, Outside
from tests.simulation.world import STANDARD, STARTING, World
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED


@pytest.mark.parametrize("decision", ENDS)
def test_a_webhook_between_recoverys_update_and_its_start_is_too_late(
    world: World, outside: Outside, decision: str
) -> None:
    world.provider.answer = IN_REVIEW
    outside.in_review()
    world.pass_time(hours=25)
    statuses: list[int] = []
    outside.machines.before = lambda: statuses.append(outside.webhook(decision))

    outside.recover_all()

    assert (statuses, outside.markers()) == ([409], [])
    assert world.picture() == picture.compensated(["hold"])


@pytest.mark.parametrize("decision", ENDS)
def test_a_webhook_just_before_recoverys_update_keeps_the_settlement_from_expiring(
    world: World, outside: Outside, decision: str
) -> None:
    """Recovery's clock is past the deadline, the webhook's clock is a little behind."""
    world.provider.answer = IN_REVIEW
    outside.in_review()
    outside.until_deadline()

    def just_in_time() -> None:
        world.pass_time(seconds=-60)
        assert outside.webhook(decision) == 200

    world.meanwhile("update", just_in_time)

    outside.recover_all()

    assert outside.machines.started == [DECIDED]
    assert_ended(world, outside, decision)


@pytest.mark.parametrize("decision", ENDS)
def test_a_webhook_that_was_in_time_and_writes_after_recoverys_update_is_too_late(
    world: World, outside: Outside, decision: str
) -> None:
    """By its clock there is time left, but the row has expired."""
    world.provider.answer = IN_REVIEW
    outside.in_review()
    outside.until_deadline()
    world.pass_time(seconds=-32)

    def give_up() -> None:
        outside.until_deadline()
        assert outside.recover() == []

    world.meanwhile("transact", give_up)

    assert outside.webhook(decision) == 409
    assert outside.markers() == []
    world.drain()

    assert world.picture() == picture.compensated(["hold"])
    assert outside.machines.started == [f"{KEY}-compensate-1"]
    assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize("late", ["approved", "rejected"])
def test_an_answer_after_the_review_began_does_not_leave_the_settlement_without_an_owner(
    world: World, outside: Outside, late: str
) -> None:
    """A call times out; its retry gets REVIEW, and the execution ends; then the first call's answer comes."""
    world.open_both()
    world.provider.answer = IN_REVIEW
    first = world.start(STANDARD).run(until="VerifyKyc")

    def overtaken() -> None:
        world.provider.meanwhile = lambda: None
        first.run()
        world.provider.answer = {"approved": APPROVED, "rejected": REJECTED}[late]

    world.provider.meanwhile = overtaken
    outside.zombie("VerifyKyc", {"settlement": WIRE, "execution": "execution-1"})
    assert (first.status, first.data["status"]) == ("SUCCEEDED", "PROCESSING")

    assert outside.webhook(late.upper()) == 200
    world.drain()

    assert_ended(world, outside, late.upper())
