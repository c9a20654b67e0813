"""Rounds of the projection for a function that runs by itself: each takes what the books may lack. Pure.

                 the books have all of these      some of these     not there yet
    journal/ ──────────────────────────────┬───────────────────────┬────────────▶ names, by the minute
                                        `whole`                   now

A process knows how far the books are whole, so that a round without new objects asks S3 alone: a database
that pauses is not woken. A new process asks the books for their newest object, and looks some days further
back: those between were left out, or came late.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice

from settlement.model.errors import BooksUnavailable
from settlement.sealing import objects, seals
from settlement.sealing.books import Books, project
from settlement.sealing.objects import UNREADABLE, Copy, Found

PAGE = 1_000
"""The names of which the inbox is asked at once: 100 KB of them, as S3 lists them."""

LOOKS_BACK = timedelta(days=7)
"""How far behind the books' newest object a new process looks: the time in which a person acts on the alarm
that objects are left out. A listing has some 20,000 names of a week.
"""

STILL_COMING = timedelta(minutes=15)
"""The age at which no other object comes into a minute: calls take their time, and clocks differ."""

_NEWEST = """
SELECT max(name COLLATE "C") FROM ledger.object WHERE name COLLATE "C" < :before
"""
_UNKNOWN = """
SELECT i.name FROM json_array_elements_text(CAST(:names AS json)) AS i (name)
WHERE NOT EXISTS (SELECT FROM ledger.object o WHERE o.name = i.name)
"""


@dataclass
class Progress:
    """What a process knows: the books have all objects up to `whole`, and `taken` behind it."""

    whole: str | None = None
    taken: set[str] = field(default_factory=set)


@dataclass
class Round:
    """What a round has done. `left_out` has the fault of each object that holds up no other one.

    `waiting` has the names that are not in the books, the oldest first: those that were left out, and the one
    at which the round ended. `late` is that of `Projected`.
    """

    objects: int = 0
    entries: int = 0
    put_aside: int = 0
    late: int = 0
    left_out: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)

    def behind_seconds(self, now: datetime) -> int:
        """Return the age of the oldest object that is not in the books; 0 without one."""
        found = [moment for moment in map(_put_at, self.waiting) if moment]
        return max(0, int((now - min(found)).total_seconds())) if found else 0


def catch_up(
    books: Books, copy: Copy, progress: Progress, done: Round, now: datetime, has_time: Callable[[], bool]
) -> None:
    """Take what waits by its names, while there is time. What is done is in `done`, also after an exception.

    An object that is not what its name says, or that the books refuse, is left out, and comes again with each
    round. Raises BooksUnavailable or JournalUnavailable: then the next round goes on.
    """
    if progress.whole is None:
        progress.whole = _start(books, now)
    settled = objects.before(now - STILL_COMING)
    for page in _pages(copy.objects(seals.OBJECTS, progress.whole)):
        unknown = _unknown(books, [one.name for one in page if one.name not in progress.taken], done)
        for found in page:
            if found.name in unknown:
                done.waiting.append(found.name)
                if not has_time():
                    return
                if not _take(books, copy, found, done):
                    continue
                done.waiting.pop()
            if not done.waiting and found.name < settled:
                progress.whole = found.name
                progress.taken.discard(found.name)
            else:
                progress.taken.add(found.name)


def _start(books: Books, now: datetime) -> str:
    """Return the name behind which a new process looks. What has a name of the future counts for nothing."""
    with books.transaction() as query:
        ((newest,),) = query(_NEWEST, before=objects.before(now + STILL_COMING))
    put_at = _put_at(newest) if newest else None
    return objects.before(put_at - LOOKS_BACK) if put_at else ""


def _unknown(books: Books, names: list[str], done: Round) -> set[str]:
    """Return those of the names that are not in the inbox. They may all wait, if it gives no answer."""
    if not names:
        return set()
    done.waiting.append(names[0])
    with books.transaction() as query:
        found = {name for (name,) in query(_UNKNOWN, names=json.dumps(names))}
    done.waiting.pop()
    return found


def _take(books: Books, copy: Copy, found: Found, done: Round) -> bool:
    """Take one object into the books; return False if it is left out."""
    try:
        one = project(books, found.name, copy.read(found))
    except UNREADABLE as fault:
        done.left_out.append(f"{found.name}: {fault}")
        return False
    except BooksUnavailable as refusal:
        if not refusal.is_refused:
            raise
        done.left_out.append(f"{found.name}: {refusal}")
        return False
    done.objects += one.objects
    done.entries += one.entries
    done.late += one.late
    done.put_aside += one.put_aside
    return True


def _pages(found: Iterable[Found]) -> Iterator[list[Found]]:
    listed = iter(found)
    while page := list(islice(listed, PAGE)):
        yield page


def _put_at(name: str) -> datetime | None:
    """Return the minute in the name of an object; None if it is no such name."""
    try:
        return datetime.strptime(seals.minute_of(name), "%Y-%m-%dT%H%M").replace(tzinfo=UTC)
    except ValueError:
        return None
