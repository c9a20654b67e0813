import re

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.conditions import not_committed, not_reversed
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import Write
from settlement.core.model.status import REVERSIBLE, Step
from tests.unit import vectors
from tests.unit.conditions import applied, asked, clauses, without
from tests.unit.every_row import rows_met_by

UPDATES = {name: write for name, write in vectors.settlement_writes().items() if write.action == "Update"}
PUTS = {name: write for name, write in vectors.settlement_writes().items() if write.action == "Put"}

FREE = {step.slot: not_committed(step).expression for step in Step}
FREE |= {step.reversal_slot: not_reversed(step).expression for step in REVERSIBLE}
"""Each slot, and the condition fragment that requires it to be free."""

COMPLETING = {name for name in UPDATES if ".complete." in name}
"""Writes that move money without a slot: a settlement leaves LIMBO once, so its status is the record."""


def slots_of(row: Row) -> Row:
    return {name: row[name] for name in FREE.keys() & row.keys()}


def written_by(write: Write) -> set[str]:
    return set(re.findall(r"\b\w+_at\b", write.parameters["UpdateExpression"])) & FREE.keys()


def built(name: str) -> Write:
    """Build a write inside its test: mutants are not active at import."""
    return vectors.settlement_writes()[name]


WRITING = sorted(name for name, write in UPDATES.items() if written_by(write))


def test_each_slot_has_its_own_name_and_a_write() -> None:
    assert len(FREE) == 7
    assert {slot for write in UPDATES.values() for slot in written_by(write)} == FREE.keys()


@pytest.mark.parametrize("name", sorted(UPDATES))
def test_a_slot_that_is_written_is_never_changed_or_removed(name: str) -> None:
    write = built(name)

    for row in filter(asked(write), rows_met_by(write)):
        before, after = slots_of(row), slots_of(applied(write, row))
        assert before.items() <= after.items()
        assert after.keys() - before.keys() == written_by(write)


@pytest.mark.parametrize("name", WRITING)
def test_a_step_without_its_free_slot_condition_would_commit_twice(name: str) -> None:
    """A verdict is its own second record."""
    write = built(name)
    (slot,) = written_by(write)
    free = "attribute_not_exists(verdict)" if "verdict = " in str(write.parameters) else FREE[slot]

    assert free in clauses(write)
    mutant = without(write, free)
    assert any(slot in row for row in filter(asked(mutant), rows_met_by(mutant)))


@pytest.mark.parametrize("name", sorted(UPDATES))
def test_the_escrow_changes_exactly_when_a_slot_is_written(name: str) -> None:
    """Without a slot, a movement would have no record that prevents its repetition."""
    write = built(name)
    moves = "escrow = escrow + :change" in write.parameters["UpdateExpression"]

    assert moves == (bool(written_by(write) - {"verify_at"}) or name in COMPLETING or ".advance." in name)


def test_a_new_row_has_a_slot_only_with_its_hold() -> None:
    """Such a row is claimed and held in one write, so its escrow has the amount."""
    found = {name: built(name).parameters["Item"] for name in PUTS}

    held = {name: slots_of(row) for name, row in found.items() if slots_of(row)}
    assert held.keys() == {"forward.claim_and_hold"}
    for name, row in found.items():
        assert keys.is_settlement(row)
        assert row["escrow"] == (row["amount"] if name in held else 0)
    assert held["forward.claim_and_hold"] == {"hold_at": found["forward.claim_and_hold"]["claimed_at"]}
