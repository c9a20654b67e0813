from collections.abc import Iterable
from dataclasses import dataclass

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.store import batch
from settlement.core.store.dynamodb import Store
from settlement.proof import judgement, pages, rows, settlement_row


@dataclass(frozen=True)
class Journal:
    entries: list[Row]
    evidence: list[Row]


def read(store: Store, row: Row, seen: Iterable[Row] = ()) -> Journal:
    """Read a settlement's evidence and entries. Raises MalformedRow.

    It reads the existing entries that the row, the evidence or `seen` names.
    """
    told = settlement_row.movements(row)
    evidence = list(pages.query(store, keys.evidence(told.key, "")["pk"]))
    expected = judgement.addresses(told, rows.sound(rows.evidence, evidence))
    once = {(one["pk"], one["sk"]): one for one in (*expected, *seen)}
    return Journal(batch.read(store, list(once.values())), evidence)
