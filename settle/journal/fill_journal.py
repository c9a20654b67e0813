from datetime import UTC, datetime
from typing import Any

from settle.journal import sealed
from settle.stack import Stack
from settlement.core.ledger.keys import Row
from settlement.core.store import batch
from settlement.journal import lines
from settlement.journal.sealed_journal import SealedJournal
from settlement.proof import sealed_copy

ROWS_MAX = 1_000
"""Maximum rows per object."""


def fill(stack: Stack) -> dict[str, Any]:
    now = datetime.now(UTC)
    journal = SealedJournal(stack.client("s3"), sealed.bucket(stack))
    missing: list[Row] = []
    with sealed.whole():
        sealed_copy.compare(
            stack.store,
            sealed.copy(stack, sealed.OF_THE_STACK),
            now,
            lacks=lambda pk, sk: missing.append({"pk": pk, "sk": sk}),
        )
    objects = []
    for start in range(0, len(missing), ROWS_MAX):
        rows = batch.read(stack.store, missing[start : start + ROWS_MAX])
        rows.sort(key=lambda row: (row["pk"], row["sk"]))
        objects.append(journal.add([lines.filled(row, int(now.timestamp())) for row in rows], now))
    return {"rows": len(missing), "objects": objects}
