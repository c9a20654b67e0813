"""Projects, in rounds, the sealed objects that the books lack. Pure.

                 the books have all of these      some of these     not there yet
    journal/ ──────────────────────────────┬───────────────────────┬────────────▶ names, by the minute
                                        `whole`                   now

A process remembers `whole`, so a round without new objects does not wake a paused database. A new process
looks back: it starts some days before the books' newest object. It starts earlier if older objects were taken
lately, because a backlog of months passes within hours.
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
"""Names per inbox query: one S3 listing, about 100 KB."""

LOOKS_BACK = timedelta(days=7)
"""How far a new process looks back: the time to act on the alarm about objects left out.

A week has some 20,000 names.
"""

ASIDE_FOR = timedelta(days=1)
"""How long to report a line put aside. The books cannot record that a person saw it."""

STILL_COMING = timedelta(minutes=15)
"""Age after which a minute gets no more objects. It allows for slow calls and clock skew."""

_OBJECT = re.compile(r"journal/(2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{4})/[0-9a-f]{64}\.jsonl\.gz")
"""A name by `seals.object_name`. Any other name is forged, and may be invalid in PostgreSQL."""

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
    """A process's knowledge of the books.

    - `whole`: the books have all objects up to this name.
    - `taken`: objects after `whole` that the books have.
    - `has_seen_all`: the process has asked the books about all objects. Before that, `taken` is incomplete.
    - `put_aside`: lines put aside in the time ASIDE_FOR before `counted_at`.
    """

    whole: str | None = None
    taken: set[str] = field(default_factory=set)
    has_seen_all: bool = False
    put_aside: int = 0
    counted_at: datetime | None = None

    def put_aside_lately(self, now: datetime) -> int:
        return self.put_aside if self.counted_at and now - self.counted_at < ASIDE_FOR else 0


@dataclass
class Round:
    """Result of a round.

    - `late`: see `Projected`.
    - `left_out`: faults of objects left out. They delay no other object.
    - `waiting`: objects left out, or the name at which the round ended.
    - `has_asked`: the round queried the books, so the database is awake.
    - `has_ended`: the round reached the journal's end.
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
        """Age of the oldest waiting object. 0: no object waits. None: unknown."""
        found = [moment for moment in map(_put_at, self.waiting) if moment]
        if not found:
            return 0 if self.has_ended else None
        return max(0, int((now - min(found)).total_seconds()))


def catch_up(
    books: Books, copy: Copy, progress: Progress, done: Round, now: datetime, has_time: Callable[[], bool]
) -> None:
    """Take waiting objects in the order of their names, while there is time.

    `done` is up to date even after an exception. Each round retries refused objects and objects with a wrong
    name. Raises BooksUnavailable or JournalUnavailable; the next round continues.
    """
    if progress.whole is None:
        progress.whole = _start(books, now)
    has_ended = _take_all(books, copy, progress, done, now, has_time)
    # Count in the books, not in this round: the answer to a commit may be lost. Without an earlier query,
    # leave a paused database asleep.
    if done.has_asked or progress.counted_at is None:
        with books.transaction() as query:
            ((progress.put_aside,),) = query(_ASIDE, days=ASIDE_FOR.days)
        progress.counted_at = now
    if has_ended:
        done.has_ended = progress.has_seen_all = True


def _take_all(
    books: Books, copy: Copy, progress: Progress, done: Round, now: datetime, has_time: Callable[[], bool]
) -> bool:
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
    """Return where a new process begins to read the journal. Names with a future time do not count."""
    with books.transaction() as query:
        ((found,),) = query(_START, before=objects.before(now + STILL_COMING), days=LOOKS_BACK.days)
    put_at = _put_at(found) if found else None
    return objects.before(put_at - LOOKS_BACK) if put_at else ""


def _without_forged(page: list[Found], done: Round) -> Iterator[Found]:
    """Yield objects with a valid name. The others would fail the page's query, and are left out."""
    for found in page:
        if _put_at(found.name):
            yield found
        else:
            done.left_out.append(f"{found.name}: is no name of an object")
            done.waiting.append(found.name)


def _unknown(books: Books, names: list[str], progress: Progress, done: Round) -> set[str]:
    """Return the `names` that the books lack.

    If the query fails after `progress.has_seen_all`, `done.waiting` keeps the first name.
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
    found = _OBJECT.fullmatch(name)
    try:
        return datetime.strptime(found[1], "%Y-%m-%dT%H%M").replace(tzinfo=UTC) if found else None
    except ValueError:
        return None
