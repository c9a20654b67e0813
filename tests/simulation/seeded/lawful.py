"""The project's own proof, held against lawful histories: it must find no fault in one, at any moment."""

from collections.abc import Mapping

from settlement.adapters.wire import from_wire
from settlement.reconciliation import Look, reconcile
from tests.simulation.seeded.facts import POISON, demand
from tests.world.expressions import Item
from tests.world.memory_dynamodb import Key

EVERY = 16
"""The proof looks at the table after one commit of so many, and at the end: it takes as long as a commit."""


def prove(table: Mapping[Key, Item]) -> None:
    """Demand that `settle reconcile` proves the table, but for the rows that are unreadable on purpose."""
    rows = [from_wire(item) for (pk, _), item in table.items() if not pk.endswith(POISON)]
    findings = reconcile(rows, lambda difference: Look.DISAGREES)
    demand(findings.conserved, "the proof finds no fault in a lawful history", *findings.faults[:3])
