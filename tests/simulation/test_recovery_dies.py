"""Recovery may be killed, run twice at once, or start nothing for a while: no settlement is lost."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import combinations
from threading import Semaphore, Thread, get_ident
from typing import Any

import pytest

from handlers import recover_stalled
from settlement.model.timestamps import timestamp
from tests.simulation.cases import STOPPED, in_each, minutes_to_end
from tests.simulation.outside import Invocation, Killed, Outside, unreachable
from tests.simulation.world import World

pytestmark = pytest.mark.parametrize("ledger", ["moto"], indirect=True)

CALLS = {
    "SETTLED": ["get_item", "update_item", "start"],
    "SETTLED in the end": ["get_item", "update_item", "start"],
    "COMPENSATED": ["get_item", "update_item", "start"],
    "COMPENSATED in the end": ["get_item", "describe", "update_item", "start"],
    "LIMBO": ["get_item", "describe", "update_item", "start"],
}
"""Recovery's calls for one settlement that it has found, in this order."""

WAIT_SECONDS_MAX = 20


@contextmanager
def told(world: World, outside: Outside, tell: Callable[[str, str], object]) -> Iterator[None]:
    """Report each call for a settlement: its name, and whether it is ahead or done."""
    store: Any = world.ledger.store
    call = store._call

    def observe(operation: str, *rest: Any, **parameters: Any) -> Any:
        if operation == "query":
            return call(operation, *rest, **parameters)
        tell(operation, "ahead")
        answer = call(operation, *rest, **parameters)
        tell(operation, "done")
        return answer

    machines, store._call = outside.machines, observe
    machines.describing = lambda: tell("describe", "ahead")
    machines.before, machines.after = (lambda: tell("start", "ahead")), (lambda: tell("start", "done"))
    try:
        yield
    finally:
        store._call = call
        machines.before = machines.after = machines.describing = lambda: None


def due(world: World, what: str) -> None:
    """Stop a settlement in this way, and let the time of recovery's look come."""
    STOPPED[what](world)
    world.pass_time(minutes=1)


@pytest.mark.parametrize("what", STOPPED)
def test_the_next_run_repairs_recovery_that_was_killed_at_any_of_its_calls(
    world: World, outside: Outside, what: str
) -> None:
    due(world, what)
    began, status = world.now, world.row()["status"]

    def kill(case: tuple[str, str]) -> None:
        world.now = began
        met: list[str] = []

        def strike(name: str, when: str) -> None:
            met.append(name) if when == "ahead" else None
            if (name, when) == case:
                raise Killed

        with told(world, outside, strike), suppress(Killed):
            outside.recover()
            raise AssertionError("recovery was not killed")
        assert met == CALLS[what][: CALLS[what].index(case[0]) + 1]
        assert world.row()["status"] == status

        assert minutes_to_end(world, outside) <= 3

        assert world.row()["status"] == what.split(maxsplit=1)[0]
        assert world.row()["owner_epoch"] <= 2

    moments = [(name, when) for name in CALLS[what] for when in ("ahead", "done")]
    in_each(world, outside, [one for one in moments if one != ("describe", "done")], kill)


@pytest.mark.parametrize("what", STOPPED)
def test_two_recoveries_at_once_start_one_execution_however_their_calls_alternate(
    world: World, outside: Outside, what: str
) -> None:
    """Both get it from the index before either reads it. The order of the two makes no difference."""
    due(world, what)
    began, length = world.now, len(CALLS[what])

    def cross(firsts: tuple[int, ...]) -> None:
        world.now = began
        turns = Turns()
        with told(world, outside, lambda name, when: turns.take() if when == "ahead" else None):
            order = [0 if turn in firsts else 1 for turn in range(2 * length)]
            turns.run(lambda: recover_stalled.handler({}, Invocation()), order)

        assert len(outside.machines.started) == 1
        assert world.row()["owner"] == outside.machines.started[0]
        assert world.row()["owner_epoch"] == 1

    orders = [(0, *rest) for rest in combinations(range(1, 2 * length), length - 1)]
    in_each(world, outside, orders, cross)


class Turns:
    """A schedule of two runs that make their calls in a given order, one at a time.

    A run that has ended leaves the rest of its turns to the other.
    """

    def __init__(self) -> None:
        self._goes, self._back = [Semaphore(0), Semaphore(0)], Semaphore(0)
        self._numbers: dict[int, int] = {}
        self._left: set[int] = set()
        self._faults: list[BaseException] = []

    def take(self) -> None:
        """Wait for the turn of a run that is about to make a call."""
        self._back.release()
        assert self._goes[self._numbers[get_ident()]].acquire(timeout=WAIT_SECONDS_MAX)

    def run(self, run: Callable[[], object], order: Iterable[int]) -> None:
        for number in range(len(self._goes)):
            self._left.add(number)
            Thread(target=self._run, args=(number, run), daemon=True).start()
            assert self._back.acquire(timeout=WAIT_SECONDS_MAX)
        turns = [*order]
        while self._left:
            number = turns.pop(0) if turns else min(self._left)
            if number in self._left:
                self._goes[number].release()
                assert self._back.acquire(timeout=WAIT_SECONDS_MAX)
        assert self._faults == []

    def _run(self, number: int, run: Callable[[], object]) -> None:
        self._numbers[get_ident()] = number
        try:
            run()
        except BaseException as fault:
            self._faults.append(fault)
        self._left.discard(number)
        self._back.release()


@pytest.mark.parametrize("minutes", [6, 40])
@pytest.mark.parametrize("what", STOPPED)
def test_recovery_tries_again_while_nothing_can_be_started(
    world: World, outside: Outside, what: str, minutes: int
) -> None:
    """A settlement not released by its deadline is reversed, however long that takes."""
    due(world, what)

    def fails(minute: int) -> None:
        outside.machines.before = unreachable if minute <= minutes else lambda: None

    took = minutes_to_end(world, outside, fails)

    given_back = what == "SETTLED" and minutes == 40
    assert world.row()["status"] == ("COMPENSATED" if given_back else what.split(maxsplit=1)[0])
    assert minutes < took <= minutes + 15 + 1
    assert len(outside.machines.started) == 1


@pytest.mark.parametrize("what", ["COMPENSATED in the end", "LIMBO"])
def test_a_settlement_whose_execution_cannot_be_described_is_not_taken_over(
    world: World, outside: Outside, what: str
) -> None:
    due(world, what)
    before, seen = world.ledger.rows(), world.row()
    outside.machines.describing = unreachable

    assert outside.recover() == ["StartUnavailable"]

    # The index lists it a minute later; in LIMBO each settlement has its turn anyway.
    again = timestamp(world.now + timedelta(seconds=60)) if what != "LIMBO" else seen["gsi1sk"]
    after = [seen | {"gsi1sk": again} if row == seen else row for row in before]
    assert (world.ledger.rows(), outside.machines.started) == (after, [])
    outside.machines.describing = lambda: None
    assert minutes_to_end(world, outside) == 1
    assert world.row()["status"] == what.split(maxsplit=1)[0]
