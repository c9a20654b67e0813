"""Two executions of one settlement, at every interleaving of their steps: it happens once."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import combinations

import pytest

from settlement.model.errors import StepFenced
from settlement.model.status import REVERSIBLE, Status, Step
from settlement.policy import recovery
from settlement.policy.steps import is_replay
from tests.unit import books
from tests.unit.books import entries, moved
from tests.unit.vectors import CONFIG, EXECUTION, SETTLEMENT
from tests.world.environment import NOW
from tests.world.saga import Saga

Act = Callable[[Saga], object]
LATE = NOW + timedelta(seconds=CONFIG.recover_after_seconds)
RESUMER = f"{SETTLEMENT.key}-r1"


def interleavings(first: list[Act], second: list[Act]) -> Iterator[list[Act]]:
    """Yield every order of the acts of both, each in its own order."""
    for places in combinations(range(len(first) + len(second)), len(first)):
        one, other = iter(first), iter(second)
        yield [next(one if place in places else other) for place in range(len(first) + len(second))]


def run(owner: str) -> list[Act]:
    """Return the acts of an execution: its claim, and then its steps, if the claim made it the owner."""
    runs = []

    def claim(saga: Saga) -> None:
        runs.append(not is_replay(saga.claim(owner=owner), owner))

    def act(step: Step) -> Act:
        return lambda saga: runs[-1] and saga.commit(step)

    return [claim, *map(act, Step)]


def take_over(saga: Saga) -> None:
    """Let recovery make another execution the owner, unless the settlement is finished."""
    if taken := recovery.take_over(saga.state(), LATE, CONFIG):
        assert taken.execution == RESUMER
        saga.ledger.store.update(taken.write)


def commit(step: Step) -> Act:
    return lambda saga: saga.commit(step)


def assert_settled_once(saga: Saga) -> None:
    assert moved(saga) == {"alice": -4820, "bob": 4772, "fees:EUR": 48}
    assert saga.state().status is Status.SETTLED
    assert entries(saga).keys() == set(Step)


@pytest.mark.parametrize("other", [EXECUTION, "another"])
def test_the_same_request_twice_settles_once_at_every_interleaving(other: str) -> None:
    """With one name both run it, as asynchronous Express may; with another name, the later one does not."""
    for acts in interleavings(run(EXECUTION), run(other)):
        saga = books.fresh()
        saga.fund()
        for act in acts:
            act(saga)
        assert_settled_once(saga)


def test_a_slow_execution_and_the_one_that_takes_over_settle_once_at_every_interleaving() -> None:
    for acts in interleavings([*map(commit, Step)], [take_over, *run(RESUMER)]):
        saga = books.reached(None)
        for act in acts:
            act(saga)
        assert_settled_once(saga)


@pytest.mark.parametrize("owner", [EXECUTION, None])
def test_an_execution_and_a_reversal_leave_consistent_books_at_every_interleaving(owner: str | None) -> None:
    """All of it is reversed or nothing; an execution's own reversal never reverses a release."""

    def fenced(step: Step) -> Act:
        def act(saga: Saga) -> None:
            with suppress(StepFenced):
                saga.commit(step)

        return act

    def reverse(step: Step) -> Act:
        return lambda saga: saga.state().status is Status.COMPENSATING and saga.reverse(step)

    ends = set()
    for acts in interleavings(
        [*map(fenced, Step)], [lambda saga: saga.begin(owner=owner), *map(reverse, REVERSIBLE)]
    ):
        saga = books.reached(None)
        for act in acts:
            act(saga)
        state, changes = saga.state(), moved(saga)
        ends.add(state.status)
        assert state.escrow == 0
        assert bool(changes) == (state.status is Status.SETTLED)
        if owner and state.is_released:
            assert state.status is Status.SETTLED
    assert ends == {Status.SETTLED, Status.COMPENSATED}
