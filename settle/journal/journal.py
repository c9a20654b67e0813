from collections.abc import Iterator
from datetime import datetime

from settle.exit_codes import CommandFailed, Exit
from settle.journal import sealed
from settle.stack import Stack
from settlement.core.model.timestamps import timestamp
from settlement.journal import objects
from settlement.journal.entries import Aside, Entry, told

FIELDS = ("posted_at", "key", "step", "debit", "credit", "amount", "currency", "request_hash")


def entries(stack: Stack, source: str, since: datetime, until: datetime) -> Iterator[list[dict[str, str]]]:
    """Yield entries posted since `since` and before `until`, each once. A page has an object's entries.

    Entries come in sealing order, nearly by time. No table row is read. Raises CommandFailed for an
    unreadable object or line, or if one key and step have two different entries.
    """
    first, end = timestamp(since), timestamp(until)
    known: dict[tuple[str, str], Entry] = {}
    for found in objects.posted(sealed.copy(stack, source, "from"), objects.before(since)):
        if found.fault:
            raise CommandFailed(Exit.FAILED, f"{found.name}: {found.fault}")
        page = []
        for number, one in found.entries:
            if isinstance(one, Aside):
                raise CommandFailed(Exit.FAILED, f"{found.name}: line {number}: {one.reason}")
            if not first <= one.posted_at < end:
                continue
            if known.setdefault((one.key, one.step), one) is not one:
                if known[one.key, one.step] != one:
                    raise CommandFailed(Exit.FAILED, f"{found.name}: another entry of {one.key}:{one.step}")
                continue
            page.append(_told(one, stack))
        yield page


def _told(entry: Entry, stack: Stack) -> dict[str, str]:
    try:
        return told(entry, stack.config.currencies)
    except ValueError as fault:
        raise CommandFailed(Exit.FAILED, f"{entry.key}:{entry.step}: {fault}") from fault
