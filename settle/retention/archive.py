from collections.abc import Iterator
from datetime import datetime
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.journal import sealed
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.journal import seals
from settlement.journal.lines import PUTS
from settlement.journal.objects import UNREADABLE, lines_of
from settlement.retention import expiry
from settlement.retention.expiry import EXPIRES


def expired(stack: Stack, archive: str, account: str, now: datetime) -> dict[tuple[str, str], Row]:
    """Return an account's expired entries by key, as sealed.

    Raises CommandFailed for an unreadable or changed object.
    """
    partitions, found = {*keys.entry_partitions(account)}, dict[tuple[str, str], Row]()
    for line in _lines(stack, archive):
        row = line.get("new", {}).get("row", {})
        if line["event"] not in PUTS or row.get("pk") not in partitions:
            continue
        is_over = expiry.may_expire(row, 0) and row[EXPIRES] <= now.timestamp()
        if is_over:
            found[row["pk"], row["sk"]] = row
    return found


def _lines(stack: Stack, archive: str) -> Iterator[Any]:
    copy = sealed.copy(stack, archive, option="archive")
    for one in copy.objects(seals.OBJECTS):
        try:
            yield from lines_of(one.name, copy.read(one))
        except UNREADABLE as fault:
            raise CommandFailed(Exit.FAILED, f"archive: {one.name}: cannot be read: {fault}") from fault
