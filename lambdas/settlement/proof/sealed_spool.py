"""The spool of a comparison with the sealed journal: names and digests of all rows and lines, on disk.

As in `spool`, the database has no name, so that it is gone with this process. What it gives back is in the
order of the rows' keys: the lines of the journal are in the order of time, and the table's rows in none.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from types import TracebackType
from typing import NamedTuple

_PRAGMAS = (
    *("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", "temp_store = FILE"),
    "cache_size = -2000",
)

_BATCH = 1_000


class Told(NamedTuple):
    """What the table (`event` is `ROW`) or a line of the journal tells of a row, and when.

    `sha256` is the digest of the row; of a line about a change `before` is that of the row before it. Of a
    settlement's row there are its `status` and when it was `paid_at`; of its change, the same before it.
    An entry that may be gone is told by its line, and by its settlement's row (`SLOT`), with the digest of
    its `content`; a write-off tells the entry that there is none of (`COVERED`). `worded` is the digest that
    covers a settlement's words as well; lines of earlier releases have none.
    """

    pk: str
    sk: str
    event: str
    sha256: str | None
    before: str | None
    at: str
    status: str | None = None
    paid_at: str = ""
    content: str | None = None
    worded: str | None = None


class Named(NamedTuple):
    """An object that was found (`seal` is None), or that a seal lists."""

    name: str
    seal: str | None
    fault: str | None = None
    """What is wrong with the object itself, if it was found."""


class SealedSpool:
    """A private database on disk, for one comparison."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        for pragma in _PRAGMAS:
            self._database.execute(f"PRAGMA {pragma}")
        self._database.execute("BEGIN")
        for kind in (Told, Named):
            self._database.execute(f"CREATE TABLE {kind.__name__} ({', '.join(kind._fields)})")

    def __enter__(self) -> "SealedSpool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    def add(self, rows: Iterable[Told] | Iterable[Named]) -> None:
        """Add what is told of rows, or names of objects, of one kind."""
        waiting: list[Told | Named] = []
        for one in rows:
            waiting.append(one)
            if len(waiting) >= _BATCH:
                self._flush(waiting)
        if waiting:
            self._flush(waiting)

    def told(self) -> Iterator[list[Told]]:
        """Yield all that is told of each row, by its key: the lines in the order of their time."""
        found = map(Told._make, self._database.execute("SELECT * FROM Told ORDER BY pk, sk, at"))
        for _, of_row in groupby(found, itemgetter(0, 1)):
            yield list(of_row)

    def named(self) -> Iterator[list[Named]]:
        """Yield each object by its name, as found and as listed."""
        found = map(Named._make, self._database.execute("SELECT * FROM Named ORDER BY name, seal"))
        for _, of_name in groupby(found, itemgetter(0)):
            yield list(of_name)

    def _flush(self, waiting: list[Told | Named]) -> None:
        kind = type(waiting[0])
        values = ", ".join("?" * len(kind._fields))
        self._database.executemany(f"INSERT INTO {kind.__name__} VALUES ({values})", waiting)  # noqa: S608
        waiting.clear()
