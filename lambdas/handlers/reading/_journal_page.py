"""A page of the whole journal, from the sealed objects.

An object's name begins with the minute of its put. A cursor must not pass a minute that may get more objects.
So the minutes within the seals' grace are held back.
"""

import json
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from handlers import _dependencies
from settlement.core.model.errors import JournalUnavailable
from settlement.core.model.timestamps import timestamp
from settlement.journal import bucket as _journal
from settlement.journal import objects, seals
from settlement.journal.entries import Aside, Entry, told
from settlement.journal.objects import Posted
from settlement.reading.queries import BEGINNING, JournalQuery

OBJECTS_MAX = 20
"""Maximum objects of a page. Each is a call of S3, and may have no entry in range."""

PAGE_BYTES_MAX = 2**20
"""Size at which a page ends. Lambda answers at most 6 MB, and a line may have a 400 KB row."""

RESERVED_MS = 12_000


class _Page:
    def __init__(self, query: JournalQuery) -> None:
        self._query = query
        self._bytes = 0
        self.entries: list[dict[str, str]] = []
        self.skipped: list[dict[str, Any]] = []
        self.position = query.position
        self.objects = 0

    @property
    def is_full(self) -> bool:
        count = len(self.entries) + len(self.skipped)
        return count >= self._query.limit or self._bytes >= PAGE_BYTES_MAX

    def add(self, found: Posted) -> bool:
        """Add an object's lines after the client's position. Return whether all fit."""
        name, line = self._query.position or ("", 0)
        if line and not self.objects and found.name != name:
            self._skip(name, None, "is gone")
        self.objects += 1
        if found.fault:
            self._skip(found.name, None, found.fault)
        for number, one in found.entries:
            if found.name == name and number <= line:
                continue
            if self.is_full:
                return False
            self._add(found.name, number, one)
            self.position = (found.name, number)
        self.position = (found.name, 0)
        return True

    def _add(self, name: str, number: int, one: Entry | Aside) -> None:
        if isinstance(one, Aside):
            self._skip(name, number, one.reason)
            return
        if one.posted_at < self._query.since:
            return
        try:
            entry = told(one, _dependencies.config.currencies)
        except ValueError as fault:
            self._skip(name, number, str(fault))
            return
        self.entries.append(entry)
        self._bytes += len(json.dumps(entry))

    def _skip(self, name: str, line: int | None, reason: str) -> None:
        self.skipped.append({"object": name, "line": line, "reason": reason})


def page(query: JournalQuery, context: Any) -> dict[str, Any]:
    """Return a page of the journal, in sealed order. Raises JournalUnavailable.

    Unreadable objects and lines are skipped. The page names them.
    """
    until = _dependencies.now() - _journal.GRACE
    made = _Page(query)
    try:
        more = _fill(made, query, seals.minute(until), context)
    except (ClientError, BotoCoreError) as error:
        raise JournalUnavailable(f"the sealed journal gives no answer: {type(error).__name__}") from error
    return {
        "entries": made.entries,
        "skipped": made.skipped,
        "sealed_until": timestamp(until.replace(second=0, microsecond=0)),
        "more": more,
        "cursor": query.cursor(made.position) if made.position else None,
    }


def _fill(made: _Page, query: JournalQuery, held_back: str, context: Any) -> bool:
    copy = _journal.copy()
    for found in copy.objects(seals.OBJECTS, _after(query)):
        if seals.minute_of(found.name) >= held_back:
            return False
        in_time = context.get_remaining_time_in_millis() > RESERVED_MS
        if made.objects and (made.is_full or made.objects >= OBJECTS_MAX or not in_time):
            return True
        if not made.add(objects.read(copy, found)):
            return True
    return False


def _after(query: JournalQuery) -> str:
    """The object name after which the listing begins.

    To list an object again, its name loses the last character, because no name sorts in between.
    """
    if query.position:
        name, line = query.position
        return name[:-1] if line else name
    return "" if query.since == BEGINNING else objects.before(datetime.fromisoformat(query.since))
