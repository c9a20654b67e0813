"""An execution is slow, or a clock is wrong: another execution takes over, and each step commits once."""

from datetime import timedelta
from itertools import pairwise, product

import pytest

from tests.handlers.calls import KEY
from tests.simulation import picture
from tests.simulation.cases import in_each, is_whole, minutes_to_end, run_states, stop_all
from tests.simulation.outside import Outside
from tests.simulation.picture import STEPS
from tests.simulation.stuck import in_limbo, spend
from tests.simulation.world import EXPRESS, STANDARD, World
from tests.support.interpreter import Execution
from tests.support.kyc import APPROVED, REJECTED

pytestmark = pytest.mark.parametrize("ledger", ["moto"], indirect=True)

ORDERS = ["the slow one first", "the new one first", "in turn"]
SETTLED = picture.of("SETTLED", STEPS)
ENDS = {
    "approved": (APPROVED, SETTLED),
    "rejected": (REJECTED, picture.compensated(["hold"], {"verify": None})),
}
POSITIONS = {"approved": range(1, 7), "rejected": range(1, 6)}
"""The states after which an execution is slow; later the settlement is reversed by a running execution."""


def run_both(world: World, both: list[Execution], order: str) -> None:
    """Run the two to their ends, and the executions that they have started."""
    if order == "in turn":
        while live := [one for one in both if one.status == "RUNNING" and not one.is_waiting]:
            for one in live:
                one.advance()
    for one in reversed(both) if order == "the new one first" else both:
        one.run()
    world.drain()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("answer", ENDS)
def test_a_slow_execution_and_its_successor_commit_each_step_once(
    world: World, outside: Outside, answer: str, order: str
) -> None:
    verdict, ends = ENDS[answer]

    def take_over(states: int) -> None:
        world.provider.answer = verdict
        slow = world.start(STANDARD)
        assert run_states(world, states)
        world.pass_time(minutes=1)
        assert outside.recover() == []
        assert outside.machines.started == [f"{KEY}-r1"]

        run_both(world, [slow, world.machines.executions[-1]], order)

        assert world.picture() == ends
        assert len(world.provider.asked) == 1
        # Only the owner reverses; the other's own reversal comes too late.
        assert outside.compensations().count(f"{KEY}-compensate-1") == (answer == "rejected")
        assert [one.status for one in world.machines.executions] == ["SUCCEEDED"] * len(
            world.machines.executions
        )

    world.open_both()
    in_each(world, outside, POSITIONS[answer], take_over)


@pytest.mark.parametrize("order", ORDERS)
def test_a_slow_execution_past_the_deadline_and_the_compensation_agree(
    world: World, outside: Outside, order: str
) -> None:
    """A settlement released by then is not reversed: its fee is collected."""

    def give_up(states: int) -> None:
        slow = world.start(STANDARD)
        assert run_states(world, states)
        outside.until_deadline()
        assert outside.recover() == []

        run_both(world, [slow, world.machines.executions[-1]], order)

        committed = STEPS[: [0, 0, 0, 1, 2, 2, 3][states]]
        if len(committed) == 3:
            assert world.picture() == SETTLED
            assert outside.compensations() == []
        else:
            rejected = not committed and world.row()["status"] == "REJECTED"
            assert world.picture() == (picture.of("REJECTED") if rejected else picture.compensated(committed))
            assert is_whole(world)

    world.open_both()
    in_each(world, outside, range(1, 7), give_up)


@pytest.mark.parametrize("steps", [2, 4])
def test_a_slow_reversal_that_runs_is_not_taken_over_at_any_state(
    world: World, outside: Outside, steps: int
) -> None:
    order = world.commit(steps)

    def look(states: int) -> None:
        world.compensation(**order)
        assert run_states(world, states)
        for _ in range(3):
            world.pass_time(minutes=20)
            assert outside.recover() == []
        assert outside.machines.started == []

        world.drain()

        assert world.picture() == picture.reversed_from(steps)

    in_each(world, outside, range(1, 6), look)


@pytest.mark.parametrize("lives", [True, False])
def test_a_settlement_ends_though_a_clock_was_an_hour_ahead_for_a_while(
    world: World, outside: Outside, lives: bool
) -> None:
    """Recovery finds it overdue; it ends whether the started execution does anything or not."""

    def jump(states: int) -> None:
        world.start(STANDARD)
        assert run_states(world, states)
        world.pass_time(hours=1)
        assert outside.recover() == []
        world.now -= timedelta(hours=1)
        if not lives:
            stop_all(world)
        world.drain()

        assert minutes_to_end(world, outside) <= 60 + 2

        if states == 6:
            assert world.picture() == SETTLED
        else:
            assert world.picture().status in ("COMPENSATED", "REJECTED")
            assert is_whole(world)

    world.open_both()
    in_each(world, outside, range(1, 7), jump)


def test_a_reversal_ends_though_the_clock_jumps_meanwhile(world: World, outside: Outside) -> None:
    order = world.commit(4)

    def jump(states: int) -> None:
        world.compensation(**order)
        assert run_states(world, states)
        world.pass_time(hours=1)
        assert outside.recover() == []
        world.now -= timedelta(hours=1)
        stop_all(world)

        assert minutes_to_end(world, outside) <= 60 + 16

        assert world.picture() == picture.reversed_from(4)

    in_each(world, outside, range(1, 6), jump)


def crossings(tasks: int) -> list[tuple[int, ...]]:
    """Return the turns of two equal executions, of which the one that begins is 0.

    Either one is first at each task with the other close behind, in every order; or one runs up to a task,
    the other up to a task, and then each to its end. A task that runs for the second time writes nothing.
    """
    firsts = [(0, *rest) for rest in product((0, 1), repeat=tasks - 1)]
    close = [tuple(number for first in turns for number in (first, 1 - first)) for turns in firsts]
    far = [
        (0,) * one + (1,) * other + (0,) * (tasks - one) + (1,) * (tasks - other)
        for one in range(1, tasks + 1)
        for other in range(1, tasks + 1)
    ]
    return sorted({*close, *far})


@pytest.mark.parametrize(("answer", "tasks"), [("approved", 5), ("rejected", 4)])
def test_the_same_input_twice_on_express_has_one_effect_however_their_tasks_alternate(
    world: World, outside: Outside, answer: str, tasks: int
) -> None:
    """A state that is no task shares no data: it follows its task at once."""
    verdict, ends = ENDS[answer]

    def next_task(one: Execution) -> None:
        one.advance()
        while one.status == "RUNNING" and one.state in ("IsReplay", "IsInReview"):
            one.advance()

    def cross(turns: tuple[int, ...]) -> None:
        world.provider.answer = verdict
        twins = [world.start(EXPRESS), world.start(EXPRESS)]
        for one in (twins[number] for number in turns):
            if one.status == "RUNNING":
                next_task(one)
        world.drain()

        assert [one.status for one in twins] == ["SUCCEEDED", "SUCCEEDED"]
        assert world.picture() == ends
        assert outside.compensations() == [f"{KEY}-compensate-0"] * (answer == "rejected")
        if answer == "approved":
            assert [one.data["status"] for one in twins] == ["SETTLED", "SETTLED"]

    world.open_both()
    in_each(world, outside, crossings(tasks), cross)


@pytest.mark.parametrize("until", ["BeginCompensation", "PageOnCall", "AwaitResolution", None])
def test_a_case_whose_execution_dies_is_alerted_again_once_per_backoff(
    world: World, outside: Outside, until: str | None
) -> None:
    """Recovery runs each minute for half an hour; the waiting execution lives on, or is gone each time."""
    order = world.commit(4)
    spend(world)
    world.compensate(**order).abort()
    taken: list[int] = []

    for minute in range(30):
        world.pass_time(minutes=1)
        started = len(outside.machines.started)
        assert outside.recover() == []
        if len(outside.machines.started) > started:
            taken.append(minute)
            world.machines.executions[-1].run(until=until)
            if until:
                stop_all(world)

    world.drain()
    gaps = [later - earlier for earlier, later in pairwise(taken)]
    assert gaps == ([1, 2, 4, 8, 15][: len(gaps)] if until else [])
    assert len(taken) == (5 if until else 1)
    assert len(world.events("LimboEntered")) == 1 + len(taken) * (until in ("AwaitResolution", None))
    assert world.picture() == in_limbo()
