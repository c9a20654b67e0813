"""The comparison of a whole table with a sealed journal."""

from collections.abc import Callable, Iterator
from datetime import datetime

from settlement.adapters import pages
from settlement.adapters.dynamodb import Store
from settlement.ledger.keys import Row
from settlement.reconciliation import Retention, sealed
from settlement.reconciliation.sealed import SealedFindings
from settlement.sealing import lines
from settlement.sealing.objects import Copy


def compare(
    store: Store,
    copy: Copy,
    now: datetime,
    kept: str | None = None,
    lacks: Callable[[str, str], None] = lambda pk, sk: None,
    shortest_retention_days: int | None = None,
) -> SealedFindings:
    """Compare the whole table with a sealed journal, as `sealed.compare` does."""
    retention = Retention.at(now, shortest_retention_days)
    return sealed.compare(copy, _sealed_rows(store), now, kept, lacks, retention)


def _sealed_rows(store: Store) -> Iterator[Row]:
    """Yield the rows of the kinds that are sealed, whole: a digest covers a row's reasons and causes, too."""
    kinds = {f":kind{number}": {"S": kind} for number, kind in enumerate(lines.KINDS)}
    wanted = " OR ".join(f"begins_with(pk, {name})" for name in kinds)
    return pages.scan(store, FilterExpression=wanted, ExpressionAttributeValues=kinds)
