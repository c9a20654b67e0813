import re
from datetime import UTC, date, datetime

import psycopg

from settle.books.verify import LAG
from settle.exit_codes import CommandFailed, Exit
from settlement.core.model.timestamps import timestamp

_MONTH = re.compile(r"[1-9][0-9]{3}-(0[1-9]|1[0-2])")
_CLOSE = """
INSERT INTO ledger.closed_month (month)
SELECT %(first)s WHERE (%(first)s::timestamp AT TIME ZONE 'UTC' < ledger.closed_until()) IS NOT TRUE
ON CONFLICT DO NOTHING
"""


def close(connection: psycopg.Connection, month: str, now: datetime) -> bool:
    """Close a month (2026-11) and all earlier months. Return whether it was open. Raises CommandFailed.

    A close and projections wait for each other, so no entry enters a closing month.
    """
    closed = connection.execute(_CLOSE, {"first": check(month, now)})
    return bool(closed.rowcount)


def check(month: str, now: datetime) -> date:
    """Return a month's first day. Raises CommandFailed until LAG after the month's end."""
    if not _MONTH.fullmatch(month):
        raise CommandFailed(Exit.USAGE, "month: must be like 2026-11")
    first = date.fromisoformat(f"{month}-01")
    end = datetime(first.year + first.month // 12, first.month % 12 + 1, 1, tzinfo=UTC)
    if now < end + LAG:
        raise CommandFailed(
            Exit.USAGE,
            f"month: {month} is not over, or its last entries may be on their way: close it from"
            f" {timestamp(end + LAG)} on",
        )
    return first
