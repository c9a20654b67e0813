"""A report's path, derived from rows, equals the machines' actual path."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from settle.reports import path
from settle.reports.path import Mark, Walk
from settlement.core.ledger.keys import Row
from settlement.core.model.state import SettlementState
from settlement.core.model.status import FINISHED, REVERSIBLE, Step
from settlement.proof import journal
from tests.settle.book import Book
from tests.settle.desk import Desk
from tests.settle.ways import WAYS, Way, claimed
from tests.statemachines.definitions import DEFINITIONS, states, targets
from tests.world.constants import KEY
from tests.world.picture import after


def entered(desk: Desk, machine: str) -> list[str]:
    """Return the states that the payment's executions entered, and the next one."""
    kinds = {"Compensation": "compensation"}
    mine = [one for one in desk.executions if kinds.get(one.machine, "settlement") == machine]
    names = [state for one in mine for state in one.visited]
    return names + [one.state for one in mine if one.status == "RUNNING" and not one.is_waiting]


def shown(found: list[Walk], machine: str) -> list[str]:
    return [visit.state for walk in found if walk.machine == machine for visit in walk.visits]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_shown_path_is_the_one_the_machines_took(desk: Desk, way: Way) -> None:
    """Each committed step is on the path with its time. Only an unfinished settlement has a position.

    A claimed key shows its first state, because no execution exists yet. A write-off shows its decision,
    because losses cover the step and no reversal commits.
    """
    way(desk)
    state = SettlementState.from_row(desk.row())
    evidence = journal.read(desk.stack.store, desk.row()).evidence
    first = {"settlement": ["HoldFunds"]} if way is claimed else {}
    covered = {row["posted_at"] for row in evidence if row.get("decision") == "write-off"}
    slots = {step.slot: state.steps[step] for step in Step if step in state.steps}
    slots |= {
        step.reversal_slot: state.reversed[step]
        for step in REVERSIBLE
        if step in state.steps and step in state.reversed and state.reversed[step] not in covered
    }

    walks = path.walks(state, evidence)

    for machine in DEFINITIONS:
        assert shown(walks, machine) == entered(desk, machine) + first.get(machine, [])
    follows_the_definition(walks)
    visits = [visit for walk in walks for visit in walk.visits]
    committed = [visit for visit in visits if visit.mark is Mark.COMMITTED]
    told = {visit.proof: visit.at for visit in committed if str(visit.proof).endswith("_at")}
    assert told == slots
    decided = {row["step"] for row in evidence if row["step"].startswith(("limbo:", "resolve:"))}
    assert {visit.proof for visit in committed if ":" in str(visit.proof)} == decided
    assert [visit.mark for visit in visits].count(Mark.HERE) == (state.status not in FINISHED)


def follows_the_definition(walks: list[Walk]) -> None:
    for walk in walks:
        for one, following in pairwise(walk.visits):
            assert following.state in targets(states(walk.machine)[one.state])


def rows_of(make: Callable[[Book], object]) -> tuple[SettlementState, list[Row]]:
    book = Book()
    book.open("alice", 50_000)
    book.open("bob", 0)
    make(book)
    evidence = [row for row in book.rows if row["pk"] == f"EVIDENCE#{KEY}"]
    return SettlementState.from_row(book.row(f"SETTLEMENT#{KEY}")), evidence


def settle(steps: int, **more: str) -> Callable[[Book], None]:
    return lambda book: book.settle(KEY, "alice", "bob", 4820, 48, steps=steps, **more)


def reversed_after(steps: int) -> Callable[[Book], None]:
    def make(book: Book) -> None:
        settle(steps)(book)
        book.compensate(KEY)

    return make


def stuck_at(step: str, *decisions: str, steps: int = len(Step)) -> Callable[[Book], None]:
    def make(book: Book) -> None:
        settle(steps)(book)
        book.limbo(KEY, step)
        for decision in decisions:
            if decision == "complete":
                book.complete(KEY)
            elif decision == "retry":
                book.retry(KEY)
                book.compensate(KEY)
            else:
                book.compensate(KEY, written_off=step)

    return make


def in_a_review(book: Book) -> None:
    settle(after("hold"))(book)
    book.review(KEY)


MADE = [
    *(settle(0, status="REJECTED"), *map(settle, range(len(Step) + 1)), in_a_review),
    *map(reversed_after, range(1, len(Step) + 1)),
    *(
        stuck_at(step, *decided)
        for step in ("fee", "release")
        for decided in ((), ("retry",), ("write-off",))
    ),
    *(stuck_at("hold"), stuck_at("hold", "retry"), stuck_at("release", "complete", steps=after("release"))),
    *(stuck_at("hold", "retry", steps=steps) for steps in range(1, after("release"))),
]
"""Hand-made rows, for more combinations than the machines run through."""

WITHOUT_TRACE = {
    *("HoldFunds ReportOutcome", "RejectSettlement ReportOutcome"),
    *(f"{name} BeginCompensation" for name in ("RefundFee", "ReclaimFunds", "VoidHold", "EnterLimbo")),
    *(f"{name} BeginCompensation" for name in ("PrepareAlert", "AwaitResolution", "ResolveLimbo")),
    *("AwaitResolution PrepareAlert", "ResolveLimbo PrepareAlert", "IsDecided PrepareAlert"),
    *("AwaitResolution PauseBetweenAlerts", "PauseBetweenAlerts PrepareAlert", "IsDecided ResolveLimbo"),
}
"""Transitions that no row shows: a replay, a fence that sends an execution back to the row, a repeated
alert, a decision announced by another execution.
"""


def test_every_transition_is_on_a_tested_path_or_listed_untraced() -> None:
    taken = {
        f"{one.state} {following.state}"
        for make in MADE
        for walk in path.walks(*rows_of(make))
        for one, following in pairwise(walk.visits)
    }
    every = {
        f"{name} {target}"
        for machine in DEFINITIONS
        for name, state in states(machine).items()
        for target in targets(state)
        if states(machine)[target]["Type"] != "Fail"
    }

    assert taken == every - WITHOUT_TRACE
    assert every >= WITHOUT_TRACE


@pytest.mark.parametrize("number", range(len(MADE)))
def test_the_path_of_rows_made_by_hand_follows_the_definition(number: int) -> None:
    follows_the_definition(path.walks(*rows_of(MADE[number])))
