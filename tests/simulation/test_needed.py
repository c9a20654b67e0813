"""Each condition is needed: a recorded call breaks a rule only without it."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import settlement
from settlement.core.ledger import conditions
from tests.simulation.seeded import weakened
from tests.simulation.seeded.facts import Violated
from tests.simulation.seeded.needed import Story, idle, needed
from tests.simulation.seeded.run import told
from tests.simulation.seeded.stage import Current, set_up
from tests.simulation.seeded.weakened import Atom

NEEDED, IDLE = needed(), idle()
of_the_whole = pytest.mark.skipif(bool(weakened.GONE), reason="the stories of a deleted room are gone")


BY_THE_BANK = {f"record.{one}" for one in ("line", "match", "match_line", "statement", "file")}
BY_THE_BANK |= {"booking.propose", "booking.approve"}
"""Writes beside settlements: tests/simulation/bank and tests/handlers/bank try them without conditions."""

BY_CHECKS = {"waits.end", "waits.keep"}
"""Writes of checks, which no story has: tests/unit/test_transitions.py removes their conditions."""

BY_PAYOUTS = {
    f"writes.{one}" for one in ("reserve", "_use", "_count_day", "_debit", "_credit", "_entry", "_change")
}
BY_PAYOUTS |= {f"destination.{one}" for one in ("add", "confirm", "freeze")}
BY_PAYOUTS |= {f"decision.{one}" for one in ("propose", "approve")}
BY_PAYOUTS |= {f"lines.{one}" for one in ("listed", "booked", "refused")}
"""A payout has lives and planted bugs of its own: tests/simulation/payouts."""

BY_PAYRUNS = {f"writes.{one}" for one in ("propose", "approve", "refused", "taken", "_ordered", "_update")}
"""Writes of pay runs, which have their own lives: tests/simulation/payruns."""


@pytest.fixture(scope="module")
def current() -> Iterator[Current]:
    with set_up() as current:
        yield current


def history(current: Current, story: Story, without: set[Atom]) -> str | None:
    """Return a call's history if it breaks a rule without some conditions."""
    try:
        story.happens(current, weakened.without(without) if without else None, is_told=True)
    except Violated as broken:
        return told(current.world, broken)
    return None


@pytest.mark.parametrize("atom", NEEDED, ids=" ".join)
def test_a_removed_condition_breaks_a_rule(current: Current, atom: Atom) -> None:
    need, name = NEEDED[atom], " ".join(atom)
    with weakened.demanded() as demanded:
        broken = history(current, need.story, set())
    is_made = atom[0] in {place for place, _ in demanded}
    if atom not in demanded and (is_made or not broken):
        others = " and ".join(map(" ".join, need.beside))
        what = f"{name} is gone" + f", and once {others} is gone as well:" * bool(others)
        without = broken or history(current, need.story, {*need.beside})
        pytest.fail(f"{what}\n{without or 'or its write is made elsewhere now: make needed'}", pytrace=False)
    if broken:
        pytest.fail(f"the code breaks a rule:\n{broken}", pytrace=False)
    if not history(current, need.story, {atom, *need.beside}):
        pytest.fail(f"{name} does not refuse its call any more: make needed", pytrace=False)


@of_the_whole
def test_every_condition_is_listed_as_needed_or_idle(current: Current) -> None:
    with weakened.demanded() as demanded:
        for story in {need.story for need in NEEDED.values()}:
            history(current, story, set())

    known = NEEDED.keys() | IDLE.keys()
    assert sorted(map(" ".join, demanded - known)) == [], "new: make needed"
    assert sorted(map(" ".join, known - demanded)) == [], "gone"
    assert not NEEDED.keys() & IDLE.keys()
    assert all(len(why) > 20 for why in IDLE.values())


@of_the_whole
def test_every_function_that_makes_a_write_is_listed() -> None:
    made = set()
    for file in Path(settlement.__file__).parent.rglob("*.py"):
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, ast.FunctionDef) and file.stem != "transaction":
                called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
                if {name.id for name in called if isinstance(name, ast.Name)} & {
                    "put",
                    "update",
                    "update_with_event",
                    "_decided_by",
                }:
                    made.add(f"{file.stem}.{function.name}")

    assert made - BY_THE_BANK - BY_CHECKS - BY_PAYOUTS - BY_PAYRUNS == {
        place.partition(" ")[0] for place, _ in NEEDED.keys() | IDLE.keys()
    }
    assert made >= BY_THE_BANK | BY_PAYOUTS | BY_PAYRUNS


def test_every_function_that_builds_a_condition_has_a_sample() -> None:
    builders = {
        name
        for name, function in inspect.getmembers(conditions, inspect.isfunction)
        if function.__module__ == conditions.__name__ and not name.startswith("_")
    }

    assert builders == {name.partition("(")[0] for name in weakened.SAMPLES}


def test_every_condition_has_a_name_of_its_own() -> None:
    assert len(weakened.NAMES) == len(weakened.EXPRESSIONS)
    assert not any(" AND " in expression for expression in weakened.EXPRESSIONS.values())


@of_the_whole
def test_every_condition_is_used_by_some_write() -> None:
    never_demanded = {f"status_is({status})" for status in ("REJECTED", "COMPENSATED")}
    never_demanded |= {"not_committed(verify)"}  # a verdict is recorded once: NO_VERDICT

    used = {condition for _, condition in NEEDED.keys() | IDLE.keys()}
    assert used == weakened.EXPRESSIONS.keys() - never_demanded
