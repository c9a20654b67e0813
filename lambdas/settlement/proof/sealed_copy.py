from collections.abc import Callable, Iterator
from datetime import datetime

from settlement.core.ledger.keys import Row
from settlement.core.store.dynamodb import Store
from settlement.journal import lines
from settlement.journal.objects import Copy
from settlement.proof import Retention, pages, sealed
from settlement.proof.sealed import SealedFindings


def compare(
    store: Store,
    copy: Copy,
    now: datetime,
    kept: str | None = None,
    lacks: Callable[[str, str], None] = lambda pk, sk: None,
    shortest_retention_days: int | None = None,
) -> SealedFindings:
    retention = Retention.at(now, shortest_retention_days)
    return sealed.compare(copy, _sealed_rows(store), now, kept, lacks, retention)


def _sealed_rows(store: Store) -> Iterator[Row]:
    """Yield whole rows, because a digest also covers reasons and causes."""
    kinds = {f":kind{number}": {"S": kind} for number, kind in enumerate(lines.KINDS)}
    wanted = " OR ".join(f"begins_with(pk, {name})" for name in kinds)
    return pages.scan(store, FilterExpression=wanted, ExpressionAttributeValues=kinds)
