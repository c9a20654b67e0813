"""The entries of the journal, all accounts in one list, out of the sealed copies: the table is not read."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timedelta

from settle.books.lines import Aside, Entry
from settle.books.lines import entries as entries_of
from settle.exit_codes import CommandFailed, Exit
from settle.queries import sealed
from settle.stack import Stack
from settlement.model import money
from settlement.model.timestamps import timestamp
from settlement.reconciliation.sealed import UNREADABLE, Copy, lines_of
from settlement.sealing import seals

FIELDS = ("posted_at", "key", "step", "debit", "credit", "amount", "currency", "request_hash")

_PUTS = ("INSERT", "FILL")
"""A line of an entry that was changed or deleted is for the proof, and no fact of the journal."""

_CLOCKS = timedelta(minutes=5)
"""How far a function's clock may be behind that of the one that has posted the entry."""


def entries(stack: Stack, source: str, since: datetime, until: datetime) -> Iterator[list[dict[str, str]]]:
    """Yield the entries that were posted between two instants, each once, an object of the journal at a time.

    They come in the order in which they were sealed, which is nearly that of their times. An object that was
    put before `since` is not read. Raises CommandFailed for an object that cannot be read, for a line that is
    no entry, and for two entries of one key and step.
    """
    first, last = timestamp(since), timestamp(until)
    known: dict[tuple[str, str], Entry] = {}
    for name, found in _objects(sealed.copy(stack, source, "from"), seals.minute(since - _CLOCKS)):
        page = []
        for one in found:
            if isinstance(one, Aside):
                raise CommandFailed(Exit.FAILED, f"{name}: {one.reason}")
            if not first <= one.posted_at <= last:
                continue
            if known.setdefault((one.key, one.step), one) is not one:
                if known[one.key, one.step] != one:
                    raise CommandFailed(Exit.FAILED, f"{name}: another entry of {one.key}:{one.step}")
                continue
            page.append(_told(one, stack))
        yield page


def _objects(copy: Copy, first: str) -> Iterator[tuple[str, list[Entry | Aside]]]:
    for one in copy.objects(seals.OBJECTS):
        if seals.minute_of(one.name) < first:
            continue
        try:
            told = [line for line in lines_of(one.name, copy.read(one)) if line["event"] in _PUTS]
            yield one.name, list(entries_of(told))
        except UNREADABLE as fault:
            raise CommandFailed(Exit.FAILED, f"{one.name}: cannot be read: {fault}") from fault


def _told(entry: Entry, stack: Stack) -> dict[str, str]:
    if entry.currency not in stack.config.currencies:
        raise CommandFailed(
            Exit.FAILED, f"{entry.key}:{entry.step}: the stage has no currency {entry.currency}"
        )
    amount = money.render(entry.amount, stack.config.currencies[entry.currency])
    return {**asdict(entry), "amount": amount}
