"""A `Town` whose entries have expired: its remaining rows, and its rows as sealed."""

from datetime import datetime, timedelta
from functools import cache

import pytest

from settlement.core.ledger.keys import Row
from settlement.core.store.wire import from_wire, to_wire
from settlement.journal import lines
from settlement.proof import Findings, Retention, table_scan
from settlement.proof.sealed import SealedFindings
from settlement.retention.expiry import EXPIRES
from settlement.signing.signature import RowKeys
from tests.proof import shapes
from tests.proof.client import readable
from tests.proof.mutations import Rows
from tests.world.environment import NOW
from tests.world.memory_dynamodb import MemoryDynamoDb
from tests.world.sealed import Sealed

DAYS = 400
ROW_KEYS = RowKeys.from_text("1:of-the-stage")
LATER = NOW + timedelta(days=DAYS + 3)
"""A time after every entry has expired."""


@cache
def rows_of(shape: str, days: int | None = DAYS) -> Rows:
    """Return a shape's rows; with `days`, entries have an expiry."""
    return shapes.town(shape, ROW_KEYS, days).rows()


@cache
def aged(shape: str) -> Rows:
    return expire(rows_of(shape), LATER)


def expire(rows: Rows, now: datetime) -> Rows:
    ends = {key: int(item[EXPIRES]["N"]) for key, item in rows.items() if EXPIRES in item}
    return {key: item for key, item in rows.items() if ends.get(key, now.timestamp()) >= now.timestamp()}


def reconciled(rows: Rows, now: datetime = LATER, days: int | None = DAYS) -> Findings:
    class Clock:
        now = staticmethod(lambda _: now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_scan, "datetime", Clock)
        return table_scan.check(
            readable(MemoryDynamoDb(items=rows)),
            currencies={"EUR", "JPY"},
            row_keys=ROW_KEYS,
            shortest_retention_days=days,
        )


def sealed(rows: Rows) -> Sealed:
    journal = Sealed()
    journal.copy(from_wire(item) for item in rows.values() if lines.is_sealed(from_wire(item)))
    journal.seal()
    return journal


def compared(journal: Sealed, rows: Rows, now: datetime = LATER, days: int | None = DAYS) -> SealedFindings:
    """Compare rows and journal. Ignore that sealing has stopped."""
    found = journal.compare(map(from_wire, rows.values()), now=now, retention=Retention.at(now, days))
    found.faults = [fault for fault in found.faults if "sealing has stopped" not in fault]
    return found


def put(rows: Rows, row: Row, row_keys: RowKeys | None = None) -> Rows:
    """Return the rows with one more, signed by the key if any."""
    item = to_wire(row_keys.signed(row) if row_keys else row)
    return {**rows, (item["pk"]["S"], item["sk"]["S"]): item}
