"""Objects of the sealed journal as they are read: their names, their lines, and what may be wrong."""

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol

from settlement.journal import seals
from settlement.journal.entries import Aside, Entry, entries
from settlement.journal.lines import PUTS

OBJECT_BYTES_MAX = 64 * 2**20
"""The most that an object may hold. A batch of the stream has 6 MB, and each row of it up to three images."""

LINE_BYTES_MAX = 5 * 2**20
"""The most that a line may have: two images of a row of 400 KB, of which JSON makes up to six bytes for one.
Python takes 30 bytes for one of a forged line, and a function has 512 MB.
"""

UNREADABLE = (
    *(EOFError, OSError, zlib.error),
    *(ValueError, KeyError, TypeError, AttributeError, RecursionError),
)
"""What a forged or damaged object may raise."""

_CLOCKS = timedelta(minutes=5)
"""How far a function's clock may be behind that of the one that has posted the entry."""

_FIRST = datetime(2000, 1, 1, tzinfo=UTC)


class Found(NamedTuple):
    """An object that is there: `version` reads it, and `fault` is what its versions show."""

    name: str
    version: str = ""
    fault: str | None = None


class Copy(Protocol):
    """A sealed journal: the bucket, or a directory with a copy of it."""

    def objects(self, folder: str, after: str = "") -> Iterator[Found]:
        """Yield the objects of a folder behind a name, by their names."""

    def read(self, found: Found) -> bytes:
        """Return the content of an object as it was first put. Raises OSError."""


@dataclass(frozen=True)
class Posted:
    """The entries of one object, each with the number of its line; or the fault of the whole object."""

    name: str
    entries: list[tuple[int, Entry | Aside]]
    fault: str | None = None


def before(since: datetime) -> str:
    """Return a name before those of all objects with entries that were posted from an instant on."""
    return "" if since < _FIRST else f"{seals.OBJECTS}{seals.minute(since - _CLOCKS)}"


def posted(copy: Copy, after: str = "") -> Iterator[Posted]:
    """Yield the entries that were posted, an object at a time, from those behind a name on."""
    for found in copy.objects(seals.OBJECTS, after):
        yield read(copy, found)


def read(copy: Copy, found: Found) -> Posted:
    """Return the entries of an object that were posted. A line that is no entry is an Aside in its place."""
    try:
        told = enumerate(lines_of(found.name, copy.read(found)), 1)
        puts = [(number, line) for number, line in told if line["event"] in PUTS]
    except UNREADABLE as fault:
        return Posted(found.name, [], f"cannot be read: {fault}")
    return Posted(found.name, [(number, one) for number, line in puts for one in entries([line])])


def lines_of(name: str, compressed: bytes) -> Iterator[Any]:
    """Yield the lines of an object, one at a time in memory. Raises one of UNREADABLE if it was changed."""
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    content = unpacker.decompress(compressed, OBJECT_BYTES_MAX)
    if not unpacker.eof:
        raise ValueError("is cut off, or too large")
    if seals.digest(content) != name.rpartition("/")[2].partition(".")[0]:
        raise ValueError("its content is not what its name says: it was changed")
    for line in content.splitlines():
        if len(line) > LINE_BYTES_MAX:
            raise ValueError("has a line that is too long")
        yield json.loads(line)
