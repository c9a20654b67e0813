"""Spool of the comparison: names and digests of rows and lines.

An unnamed database sorts them by row key, as in `spool`. The journal is ordered by time, the table not at
all.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from types import TracebackType
from typing import Any, NamedTuple

from settlement.proof.spool import on_disk

_PRAGMAS = (
    *("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", "temp_store = FILE"),
    "cache_size = -2000",
)

_BATCH = 1_000


class Told(NamedTuple):
    """A fact about a row, from the table (`event` is `ROW`) or a line of the journal.

    - `before`: the digest before a change.
    - `status` and `paid_at`: a settlement's, before the change.
    - `content`: the digest of an entry that may have expired. A line and a `SLOT` of the settlement's row
      both have it. `COVERED` marks an entry that a write-off replaced.
    - `worded`: the digest that also covers the caller's words. Earlier releases lack it.
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
    """An object of the journal: listed in `seal`, or found in the bucket if `seal` is None."""

    name: str
    seal: str | None
    fault: str | None = None


class SealedSpool:
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
        """Add rows. Raises CutOff if the disk is full."""
        waiting: list[Told | Named] = []
        for one in rows:
            waiting.append(one)
            if len(waiting) >= _BATCH:
                self._flush(waiting)
        if waiting:
            self._flush(waiting)

    def told(self) -> Iterator[list[Told]]:
        for _, of_row in groupby(self._sorted(Told, "pk, sk, at"), itemgetter(0, 1)):
            yield list(of_row)

    def named(self) -> Iterator[list[Named]]:
        for _, of_name in groupby(self._sorted(Named, "name, seal"), itemgetter(0)):
            yield list(of_name)

    def _sorted(self, kind: type[Any], order: str) -> Iterator[Any]:
        with on_disk():
            select = f"SELECT * FROM {kind.__name__} ORDER BY {order}"  # noqa: S608
            yield from map(kind._make, self._database.execute(select))

    def _flush(self, waiting: list[Told | Named]) -> None:
        kind = type(waiting[0])
        values = ", ".join("?" * len(kind._fields))
        with on_disk():
            self._database.executemany(f"INSERT INTO {kind.__name__} VALUES ({values})", waiting)  # noqa: S608
        waiting.clear()
