from collections.abc import Iterator
from itertools import islice

import pytest

from tests.simulation.seeded import weakened
from tests.simulation.seeded.facts import Violated
from tests.simulation.seeded.moments import Late, everything, happen, record
from tests.simulation.seeded.needed import Story, explore
from tests.simulation.seeded.scenarios import SCENARIOS
from tests.simulation.seeded.stage import Current, set_up

ONE_OF = 64
"""One late call in this many is made. `make needed` makes them all, in many more lives."""


@pytest.fixture
def current() -> Iterator[Current]:
    with set_up() as current:
        yield current


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_rule_holds_however_late_a_call_is(current: Current, scenario: str) -> None:
    life, committed = record(current, scenario, {}), 0
    for late in islice(everything(life, lambda late: happen(current, life, late).table), 0, None, ONE_OF):
        committed += happen(current, life, late).table.first_commit is not None

    assert committed > 0


def test_a_call_can_read_early_and_write_late(current: Current) -> None:
    life = record(current, "settles", {})
    held = next(at for at in range(len(life.moments)) if life.row(at))

    world = happen(current, life, Late("VerifyKyc approved", held, len(life.moments) - 1, early=1))

    assert world.table.calls == 3
    assert world.table.first_commit is None
    assert world.moments == []


def test_a_call_that_commits_early_leaves_the_later_moment_unchanged(current: Current) -> None:
    life = record(current, "settles", {})

    world = happen(current, life, Late("HoldFunds", 1, 3, early=1))

    assert world.oracle.commits == life.moments[3].oracle.commits


def test_the_exploration_reports_each_condition_that_refused_a_call() -> None:
    found = explore(Story("is refused"))

    assert found.broken == {}
    assert frozenset({("balances.debit_payer", "sufficient")}) in found.refused


def test_a_removed_condition_breaks_a_rule(current: Current) -> None:
    life = record(current, "is refused", {})

    with (
        weakened.without({("balances.debit_payer", "sufficient")}),
        pytest.raises(Violated, match="below zero"),
    ):
        happen(current, life, Late("HoldFunds", 0, 0))
