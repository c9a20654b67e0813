from collections.abc import Iterator
from itertools import groupby

from settle.settlements import aside
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.model.stored import MalformedRow
from settlement.merchants import sweep
from settlement.merchants.sweep import Span
from settlement.proof import pages

_FIRST, _LAST = "0", "~"
"""Sort keys before and after every timestamp."""


def unswept(stack: Stack, merchant: str) -> Iterator[tuple[Span, int]]:
    """Yield each minute with unswept releases, and their sum in minor units.

    Folded amounts are read before the entries: a concurrent sweep cannot make a sum too small.
    """
    for partition in keys.entry_partitions(merchant):
        rows = stack.store.entries(keys.swept(partition, "")["pk"], _FIRST, _LAST)
        folded = {row["sk"]: row for row in rows}
        entries = stack.store.entries(partition, _FIRST, _LAST)
        for minute, of_minute in groupby(entries, key=lambda entry: str(entry["sk"])[: keys.MINUTE]):
            if gains := sweep.unswept(folded.get(minute), of_minute):
                yield Span(partition, minute), sum(gains.values())


def folded(stack: Stack, merchant: str, since: str = _FIRST) -> tuple[int, list[aside.Line]]:
    """Return the sum folded for a merchant since a minute, in minor units, and the unreadable rows."""
    partitions = (keys.swept(partition, "")["pk"] for partition in keys.entry_partitions(merchant))
    total, unreadable = 0, list[aside.Line]()
    for row in pages.query(stack.store, *partitions):
        if row["sk"] < since[: keys.MINUTE]:
            continue
        try:
            sweep.ensure_readable(row)
            total += sum(row["folded"].values())
        except MalformedRow as malformed:
            unreadable.append({aside.UNREADABLE: f"{row['pk']} / {row['sk']}: {malformed}"})
    return total, unreadable
