"""Recovery may run at any time: it resumes late settlements, and reverses overdue ones."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from tests.handlers.calls import KEY, WIRE
from tests.simulation import picture
from tests.simulation.outside import DECIDED, Killed, Outside, in_turn, killed, unreachable
from tests.simulation.picture import STEPS
from tests.simulation.world import BOTH, STANDARD, STARTING, World
from tests.support.interpreter import Execution
from tests.support.kyc import IN_REVIEW

FORWARD = {"HoldFunds": 0, "VerifyKyc": 1, "IsInReview": 2, "ReleaseFunds": 2, "CollectFee": 3}
"""The number of steps committed before each state."""


def each_minute(world: World, outside: Outside) -> Callable[[Execution], None]:
    def recover(execution: Execution) -> None:
        world.pass_time(minutes=1)
        assert outside.recover() == []

    return recover


@pytest.mark.parametrize("machine", BOTH)
def test_recovery_between_every_two_states_starts_more_executions_that_settle_once(
    world: World, outside: Outside, machine: str
) -> None:
    world.open_both()
    world.always = each_minute(world, outside)

    first = world.settle(machine)

    assert world.picture() == picture.of("SETTLED", STEPS)
    assert first.data["status"] == "SETTLED"
    taken = range(1, world.row()["owner_epoch"] + 1)
    assert outside.machines.started == [f"{KEY}-r{n}" for n in taken]
    assert {one.data["status"] for one in world.machines.executions} == {"SETTLED"}
    assert len(world.provider.asked) == 1


@pytest.mark.parametrize("decision", ["APPROVED", "REJECTED"])
@pytest.mark.parametrize("machine", BOTH)
def test_recovery_between_every_two_states_leaves_a_review_alone(
    world: World, outside: Outside, machine: str, decision: str
) -> None:
    world.provider.answer = IN_REVIEW
    world.always = each_minute(world, outside)
    outside.in_review(machine)
    before, started = world.ledger.rows(), list(outside.machines.started)
    for _ in range(3):
        world.pass_time(hours=7)
        outside.recover_all()
    assert (world.ledger.rows(), outside.machines.started) == (before, started)

    assert outside.webhook(decision) == 200
    world.drain()

    approved = decision == "APPROVED"
    ends = picture.of("SETTLED", STEPS) if approved else picture.compensated(["hold"], {"verify": None})
    assert world.picture() == ends
    assert outside.machines.started[len(started)] == DECIDED


@pytest.mark.parametrize("steps", range(5))
def test_recovery_between_every_two_states_leaves_a_compensation_alone(
    world: World, outside: Outside, steps: int
) -> None:
    order = world.commit(steps)
    execution = world.compensation(**order)
    execution.advance()
    outside.until_deadline()
    world.always = each_minute(world, outside)

    execution.run()

    assert execution.data["status"] == "COMPENSATED"
    assert world.picture() == picture.reversed_from(steps)
    assert outside.machines.started == []


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize("state", FORWARD)
def test_a_settlement_past_its_deadline_expires_at_any_state_before_its_release(
    world: World, outside: Outside, state: str, machine: str
) -> None:
    world.open_both()

    def too_late() -> None:
        outside.until_deadline()
        assert outside.recover() == []
        world.always = each_minute(world, outside)

    world.before[state] = too_late

    world.settle(machine)

    if state == "CollectFee":
        assert world.picture() == picture.of("SETTLED", STEPS)
        assert outside.machines.started[0] == f"{KEY}-r1"
        assert outside.compensations() == []
    else:
        first = world.machines.executions[0]
        expected = "REJECTED" if state == "HoldFunds" else "COMPENSATED"
        assert world.picture().status == expected
        assert world.picture().steps == frozenset(STEPS[: FORWARD[state]])
        assert outside.machines.started[0] == f"{KEY}-compensate-1"
        assert first.status == "SUCCEEDED"
        # It is not the owner any more: the owner reports the end of the settlement.
        assert first.data["status"] == ("REJECTED" if state == "HoldFunds" else "PROCESSING")
        assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize(("early_ms", "started"), [(1, [f"{KEY}-r1"]), (0, [f"{KEY}-compensate-1"])])
@pytest.mark.parametrize("in_review", [False, True])
def test_the_deadline_is_kept_to_the_millisecond(
    world: World, outside: Outside, in_review: bool, early_ms: int, started: list[str]
) -> None:
    if in_review:
        world.provider.answer = IN_REVIEW
        outside.in_review()
    else:
        world.commit(1)
    deadline = datetime.fromisoformat(world.row()["deadline_at"])
    world.now = deadline - timedelta(milliseconds=early_ms, seconds=1)

    outside.recover_all()

    assert outside.machines.started == ([] if in_review and early_ms else started)


@pytest.mark.parametrize("days", [1, 30])
def test_a_released_settlement_never_expires(world: World, outside: Outside, days: int) -> None:
    """However late it is, its fee is collected, and the payee keeps the amount."""
    world.commit(3)
    world.pass_time(days=days)

    outside.recover_all()

    assert world.picture() == picture.of("SETTLED", STEPS)
    assert outside.machines.started == [f"{KEY}-r1"]
    assert outside.compensations() == []


@pytest.mark.parametrize("steps", range(3))
def test_each_step_of_an_abandoned_settlement_is_refunded(world: World, outside: Outside, steps: int) -> None:
    world.commit(steps)
    outside.until_deadline()

    outside.recover_all()

    assert world.picture() == picture.compensated(STEPS[:steps])
    assert world.row()["failure"]["cause"] == "recover: the time to settle is over"
    assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize("befalls", [unreachable, killed])
@pytest.mark.parametrize("starts", [False, True])
def test_a_failed_start_is_repeated_when_the_settlement_is_listed_again(
    world: World, outside: Outside, starts: bool, befalls: Callable[[], None]
) -> None:
    world.commit(2)
    outside.until_deadline()
    setattr(outside.machines, "after" if starts else "before", befalls)
    if befalls is killed:
        with pytest.raises(Killed):
            outside.recover()
    else:
        assert outside.recover() == ["StartUnavailable"]
    outside.machines.before = outside.machines.after = lambda: None
    assert world.row()["owner_epoch"] == 1
    outside.recover()
    assert world.row()["owner_epoch"] == 1
    world.pass_time(seconds=60)

    outside.recover_all()

    assert outside.machines.started == [
        f"{KEY}-compensate-{1 if starts else 2}"
    ]  # one running execution is enough
    assert world.picture() == picture.compensated(STEPS[:2])


def test_a_settlement_that_cannot_be_started_does_not_delay_the_others(
    world: World, outside: Outside
) -> None:
    world.commit(1)
    others = [WIRE | {"key": f"order-2026-other-{n:02}", "amount": "1.00", "fee": "0.00"} for n in range(12)]
    for other in others:
        world.start(STANDARD, other["key"], other).run(until="VerifyKyc").abort()
    outside.until_deadline()
    outside.machines.before = in_turn(unreachable)

    assert outside.recover() == ["StartUnavailable"]
    world.drain()

    statuses = [world.row(other["key"])["status"] for other in [WIRE, *others]]
    assert sorted(statuses) == ["COMPENSATED"] * len(others) + ["PROCESSING"]


def test_two_recoveries_at_once_start_one_compensation(world: World, outside: Outside) -> None:
    world.commit(1)
    outside.until_deadline()
    inner: list[list[str]] = []
    world.meanwhile("update", lambda: inner.append(outside.recover()))

    outside.recover_all()

    assert inner == [[]]
    assert outside.machines.started == [f"{KEY}-compensate-1"]
    assert (world.row()["owner_epoch"], world.picture()) == (1, picture.compensated(["hold"]))
