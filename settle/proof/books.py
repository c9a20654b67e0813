from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from settle.proof import segments
from settle.stack import Stack
from settlement.proof import table_scan
from settlement.proof.watch import READING, Watch, unwatched

Counting = Callable[[Mapping[str, int]], AbstractContextManager[Watch]]
"""Shows progress, given each activity's estimated number of items."""


def uncounted(estimates: Mapping[str, int]) -> AbstractContextManager[Watch]:
    return nullcontext(unwatched)


def prove(
    stack: Stack, processes: int = 1, *, signatures: bool = True, counting: Counting = uncounted
) -> dict[str, Any]:
    """Prove the books. Proving `signatures` requires permission to read the row keys."""
    currencies, row_keys = stack.config.currencies, stack.row_keys if signatures else None
    days = stack.config.shortest_retention_days
    with counting({READING: _estimate(stack)}) as count:
        if processes == 1:
            findings = table_scan.check(
                stack.store,
                count,
                currencies=currencies,
                row_keys=row_keys,
                shortest_retention_days=days,
            )
        else:
            stage = table_scan.stage_at(datetime.now(UTC), frozenset(currencies), row_keys, days)
            findings = segments.check(stack, processes, count, stage)
    return table_scan.rendered(findings, currencies, signatures=signatures)


def _estimate(stack: Stack) -> int:
    """Return DynamoDB's count of rows: some hours old, or 0 without permission."""
    try:
        described = stack.client("dynamodb").describe_table(TableName=stack.outputs["TableName"])
    except (ClientError, BotoCoreError):
        return 0
    return int(described["Table"].get("ItemCount", 0))
