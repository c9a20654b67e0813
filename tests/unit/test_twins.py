"""Two executions of one settlement, at every interleaving of their steps: it happens once."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import combinations

import pytest

from settlement.ledger import forward as ledger_forward
from settlement.ledger import reversal
from settlement.model.errors import SettlementError, StepFenced
from settlement.model.status import REVERSIBLE, Status, Step
from settlement.policy import recovery
from settlement.policy.steps import is_replay
from tests.conftest import NOW
from tests.unit.books import ERROR, OPENING, Books, claimed, forward
from tests.unit.states import found
from tests.unit.vectors import CONFIG, REVERSER, SETTLEMENT

Act = Callable[[Books], object]
LATE = NOW + timedelta(seconds=CONFIG.recover_after_seconds)
ALL_OF_IT = replace(SETTLEMENT, amount=OPENING, fee=48)
"""The payer has enough for it once."""


def interleavings(first: list[Act], second: list[Act]) -> Iterator[list[Act]]:
    """Yield every order of the acts of both, each in its own order."""
    for places in combinations(range(len(first) + len(second)), len(first)):
        one, other = iter(first), iter(second)
        yield [next(one if place in places else other) for place in range(len(first) + len(second))]


def run(owner: str) -> list[Act]:
    """Return the acts of an execution: its claim, and then its steps, if the claim made it the owner."""
    runs = []

    def claim(books: Books) -> None:
        row = books.table.write(ledger_forward.claim(books.settlement, owner, NOW, CONFIG))
        runs.append(not is_replay(found(row), owner))

    def act(step: Step) -> Act:
        return lambda books: runs[-1] and books.table.commit(forward(books.settlement)[step])

    return [claim, *(act(step) for step in Step)]


def takeover(books: Books) -> None:
    """Let recovery make another execution the owner, unless the settlement is finished."""
    taken = recovery.take_over(books.state(), LATE, CONFIG)
    if taken:
        assert taken.execution == f"{SETTLEMENT.key}-r1"
        books.table.write(taken.write)


def assert_settled_once(books: Books) -> None:
    books.assert_consistent()
    assert books.row()["status"] == Status.SETTLED
    assert sorted(entry["step"] for entry in books.entries()) == sorted(Step)
    assert books.moved()["alice"] == -books.settlement.amount


@pytest.mark.parametrize("other", ["execution", "another"])
def test_the_same_request_twice_settles_once_at_every_interleaving(other: str) -> None:
    """With one name both run it, as asynchronous Express may; with another name, the later one does not."""
    tried = 0
    for acts in interleavings(run("execution"), run(other)):
        books = unclaimed()
        for act in acts:
            act(books)
        assert_settled_once(books)
        tried += 1
    assert tried == 252


def unclaimed() -> Books:
    """Return the two parties, before the claim."""
    books = claimed(0, ALL_OF_IT)
    del books.table._rows[f"SETTLEMENT#{SETTLEMENT.key}", "SETTLEMENT"]
    return books


def test_a_slow_execution_and_the_one_that_takes_over_settle_once_at_every_interleaving() -> None:
    for acts in interleavings([committed(step) for step in Step], [takeover, *run(f"{SETTLEMENT.key}-r1")]):
        books = claimed(0, ALL_OF_IT)
        for act in acts:
            act(books)
        assert_settled_once(books)


@pytest.mark.parametrize("owner", ["execution", None])
def test_an_execution_and_a_reversal_leave_consistent_books_at_every_interleaving(owner: str | None) -> None:
    """All of it is reversed or nothing; an execution's own reversal never reverses a release."""

    def begin(books: Books) -> None:
        books.table.write(reversal.begin(books.settlement, ERROR, owner=owner, execution=REVERSER))

    def reverse(step: Step) -> Act:
        return lambda books: books.row()["status"] == Status.COMPENSATING and books.reverse(step)

    ends = set()
    for acts in interleavings([fenced(step) for step in Step], [begin, *map(reverse, REVERSIBLE)]):
        books = claimed(0, ALL_OF_IT)
        for act in acts:
            act(books)
        books.assert_consistent()
        row = books.row()
        ends.add(row["status"])
        assert row["escrow"] == 0
        if owner and Step.RELEASE in row.get("steps", ()):
            assert row["status"] == Status.SETTLED
    assert ends == {Status.SETTLED, Status.COMPENSATED}


def committed(step: Step) -> Act:
    return lambda books: books.table.commit(forward(books.settlement)[step])


def fenced(step: Step) -> Act:
    def act(books: Books) -> None:
        with suppress(StepFenced):
            committed(step)(books)

    return act


def test_two_takeovers_of_one_settlement_make_one_owner() -> None:
    books = claimed(2)
    first = recovery.take_over(books.state(), LATE, CONFIG)
    second = recovery.take_over(books.state(), LATE, CONFIG)
    assert first
    assert second
    books.table.write(first.write)

    with pytest.raises(SettlementError, match="has moved on"):
        books.table.write(second.write)

    assert books.row()["owner_epoch"] == 1
