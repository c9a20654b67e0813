"""Rounds of the projection for a function that runs by itself: each takes what the books may lack. Pure.

                 the books have all of these      some of these     not there yet
    journal/ ──────────────────────────────┬───────────────────────┬────────────▶ names, by the minute
                                        `whole`                   now

A process knows how far the books are whole, so that a round without new objects asks S3 alone: a database
that pauses is not woken. A new process asks the books for their newest object and for the oldest one of those
taken in the last days, and looks some days further back: those between were left out, or came late. A backlog
of months passes within hours, so that the newest object alone says nothing about the time.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice

from settlement.books.page import Books, project
from settlement.core.model.errors import BooksUnavailable
from settlement.journal import objects, seals
from settlement.journal.objects import UNREADABLE, Copy, Found

PAGE = 1_000
"""The names of which the inbox is asked at once: 100 KB of them, as S3 lists them."""

LOOKS_BACK = timedelta(days=7)
"""How far a new process looks back: the time in which a person acts on the alarm that objects are left out. A
listing has some 20,000 names of a week.
"""

ASIDE_FOR = timedelta(days=1)
"""How long a line that was put aside is told: no table of the books says that a person has looked at it."""

STILL_COMING = timedelta(minutes=15)
"""The age at which no other object comes into a minute: calls take their time, and clocks differ."""

_OBJECT = re.compile(r"journal/(2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{4})/[0-9a-f]{64}\.jsonl\.gz")
"""The name of an object, by `seals.object_name`. Another one is forged, and may be no text for PostgreSQL."""

_START = """
SELECT least(max(name COLLATE "C"),
    min(name COLLATE "C") FILTER (WHERE projected_at > now() - CAST(:days AS integer) * interval '1 day'))
FROM ledger.object WHERE name COLLATE "C" < :before
"""
_ASIDE = """
SELECT count(*) FROM ledger.put_aside WHERE put_at > now() - CAST(:days AS integer) * interval '1 day'
"""
_UNKNOWN = """
SELECT i.name FROM json_array_elements_text(CAST(:names AS json)) AS i (name)
WHERE NOT EXISTS (SELECT FROM ledger.object o WHERE o.name = i.name)
"""


@dataclass
class Progress:
    """What a process knows: the books have all objects up to `whole`, and `taken` behind it.

    `has_seen_all`: it has asked the books about all objects that there were. Before, a name that it does not
    know may be in them. `put_aside`: the lines that the books put aside in the time before `counted_at`.
    """

    whole: str | None = None
    taken: set[str] = field(default_factory=set)
    has_seen_all: bool = False
    put_aside: int = 0
    counted_at: datetime | None = None

    def put_aside_lately(self, now: datetime) -> int:
        """Return the number of lines that were put aside within ASIDE_FOR, as far as the process knows."""
        return self.put_aside if self.counted_at and now - self.counted_at < ASIDE_FOR else 0


@dataclass
class Round:
    """What a round has done. `left_out` has the fault of each object that holds up no other one.

    `waiting` has the names that are not in the books: those that were left out, and the one at which the
    round ended. `has_asked`: it has asked the books about names, so that they are awake. `has_ended`: it has
    come to the end of the journal; otherwise more may wait than it knows. `late` is that of `Projected`.
    """

    objects: int = 0
    entries: int = 0
    put_aside: int = 0
    late: int = 0
    left_out: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    has_asked: bool = False
    has_ended: bool = False

    def behind_seconds(self, now: datetime) -> int | None:
        """Return the age of the oldest object that is not in the books; 0 without one, None if unknown."""
        found = [moment for moment in map(_put_at, self.waiting) if moment]
        if not found:
            return 0 if self.has_ended else None
        return max(0, int((now - min(found)).total_seconds()))


def catch_up(
    books: Books, copy: Copy, progress: Progress, done: Round, now: datetime, has_time: Callable[[], bool]
) -> None:
    """Take what waits by its names, while there is time. What is done is in `done`, also after an exception.

    An object that is not what its name says, or that the books refuse, is left out, and comes again with each
    round. Raises BooksUnavailable or JournalUnavailable: then the next round goes on.
    """
    if progress.whole is None:
        progress.whole = _start(books, now)
    has_ended = _take_all(books, copy, progress, done, now, has_time)
    # Not by what this round has put aside: the answer to a commit may be lost. Without a question before,
    # the database may be paused, and stays so.
    if done.has_asked or progress.counted_at is None:
        with books.transaction() as query:
            ((progress.put_aside,),) = query(_ASIDE, days=ASIDE_FOR.days)
        progress.counted_at = now
    if has_ended:
        done.has_ended = progress.has_seen_all = True


def _take_all(
    books: Books, copy: Copy, progress: Progress, done: Round, now: datetime, has_time: Callable[[], bool]
) -> bool:
    """Take what waits; return False if the time is over before."""
    settled = objects.before(now - STILL_COMING)
    for number, listed in enumerate(_pages(copy.objects(seals.OBJECTS, progress.whole or ""))):
        if number and not has_time():  # a listing of years may take longer than a round
            return False
        page = [*_without_forged(listed, done)]
        new = [one.name for one in page if one.name not in progress.taken]
        unknown = _unknown(books, new, progress, done)
        for found in page:
            if found.name in unknown:
                done.waiting.append(found.name)
                if not has_time():
                    return False
                if not _take(books, copy, found, done):
                    continue
                done.waiting.pop()
            if not done.waiting and found.name < settled:
                progress.whole = found.name
                progress.taken.discard(found.name)
            else:
                progress.taken.add(found.name)
    return True


def _start(books: Books, now: datetime) -> str:
    """Return the name behind which a new process looks. What has a name of the future counts for nothing."""
    with books.transaction() as query:
        ((found,),) = query(_START, before=objects.before(now + STILL_COMING), days=LOOKS_BACK.days)
    put_at = _put_at(found) if found else None
    return objects.before(put_at - LOOKS_BACK) if put_at else ""


def _without_forged(page: list[Found], done: Round) -> Iterator[Found]:
    """Yield what has the name of an object, and leave out the rest: one such name fails the page's query."""
    for found in page:
        if _put_at(found.name):
            yield found
        else:
            done.left_out.append(f"{found.name}: is no name of an object")
            done.waiting.append(found.name)


def _unknown(books: Books, names: list[str], progress: Progress, done: Round) -> set[str]:
    """Return those of the names that are not in the inbox.

    If it gives no answer, a process that has seen all others knows that the first one waits.
    """
    if not names:
        return set()
    if progress.has_seen_all:
        done.waiting.append(names[0])
    with books.transaction() as query:
        found = {name for (name,) in query(_UNKNOWN, names=json.dumps(names))}
    if progress.has_seen_all:
        done.waiting.pop()
    done.has_asked = True
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
    found = _OBJECT.fullmatch(name)
    try:
        return datetime.strptime(found[1], "%Y-%m-%dT%H%M").replace(tzinfo=UTC) if found else None
    except ValueError:
        return None
