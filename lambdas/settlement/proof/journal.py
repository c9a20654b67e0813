"""The rows of one settlement: its own, its evidence, and the entries whose keys follow from both."""

from collections.abc import Iterable
from dataclasses import dataclass

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.store.dynamodb import Store
from settlement.proof import batch, judgement, pages, rows, settlement_row


@dataclass(frozen=True)
class Journal:
    """Rows as they are, in no order."""

    entries: list[Row]
    evidence: list[Row]


def read(store: Store, row: Row, seen: Iterable[Row] = ()) -> Journal:
    """Read the journal of a settlement by its row, and the entries with the keys `seen` besides.

    A settlement has few entries: one call reads them. Raises MalformedRow if the row tells no entry.
    """
    told = settlement_row.movements(row)
    evidence = list(pages.query(store, keys.evidence(told.key, "")["pk"]))
    expected = judgement.addresses(told, rows.sound(rows.evidence, evidence))
    once = {(one["pk"], one["sk"]): one for one in (*expected, *seen)}
    return Journal(batch.read(store, list(once.values())), evidence)
