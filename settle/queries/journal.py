"""The rows of one settlement: its own, its evidence, and the entries whose keys follow from both."""

from collections.abc import Iterable
from dataclasses import dataclass

from settle.queries import batch, pages
from settle.reconciliation import facts, judgement
from settle.stack import Stack
from settlement.ledger import keys
from settlement.ledger.keys import Row


@dataclass(frozen=True)
class Journal:
    """Rows as they are, in no order."""

    entries: list[Row]
    evidence: list[Row]


def read(stack: Stack, row: Row, seen: Iterable[Row] = ()) -> Journal:
    """Read the journal of a settlement by its row, and the entries with the keys `seen` besides.

    A settlement has few entries: one call reads them. Raises MalformedRow if the row tells no entry.
    """
    told = facts.settlement(row)
    evidence = list(pages.query(stack, keys.evidence(told.key, "")["pk"]))
    expected = judgement.addresses(told, facts.sound(facts.evidence, evidence))
    once = {(one["pk"], one["sk"]): one for one in (*expected, *seen)}
    return Journal(batch.read(stack, list(once.values())), evidence)
