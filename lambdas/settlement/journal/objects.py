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
"""Maximum size of an object. A stream batch has 6 MB, and each of its rows up to three images."""

LINE_BYTES_MAX = 5 * 2**20
"""Maximum size of a line: two images of a 400 KB row, in JSON up to six times as long.

A forged line takes 30 bytes of memory per byte, and a function has 512 MB.
"""

UNREADABLE = (
    *(EOFError, OSError, zlib.error),
    *(ValueError, KeyError, TypeError, AttributeError, RecursionError),
)
"""Errors from a forged or damaged object."""

_CLOCKS = timedelta(minutes=5)
"""Maximum clock skew between the function that posts and the function that seals."""

_FIRST = datetime(2000, 1, 1, tzinfo=UTC)


class Found(NamedTuple):
    """An object, and the `version` to read. `fault`: it was deleted or put again."""

    name: str
    version: str = ""
    fault: str | None = None


class Copy(Protocol):
    def objects(self, folder: str, after: str = "") -> Iterator[Found]:
        """Yield objects, sorted by name."""

    def read(self, found: Found) -> bytes:
        """The object as first put. Raises OSError."""


@dataclass(frozen=True)
class Posted:
    """One object's entries by line number. `fault`: why the object is unreadable."""

    name: str
    entries: list[tuple[int, Entry | Aside]]
    fault: str | None = None


def before(since: datetime) -> str:
    """A name that sorts before all objects with entries posted since `since`."""
    return "" if since < _FIRST else f"{seals.OBJECTS}{seals.minute(since - _CLOCKS)}"


def posted(copy: Copy, after: str = "") -> Iterator[Posted]:
    for found in copy.objects(seals.OBJECTS, after):
        yield read(copy, found)


def read(copy: Copy, found: Found) -> Posted:
    """Read an object's entries. A malformed entry becomes an Aside."""
    try:
        told = enumerate(lines_of(found.name, copy.read(found)), 1)
        puts = [(number, line) for number, line in told if line["event"] in PUTS]
    except UNREADABLE as fault:
        return Posted(found.name, [], f"cannot be read: {fault}")
    return Posted(found.name, [(number, one) for number, line in puts for one in entries([line])])


def lines_of(name: str, compressed: bytes) -> Iterator[Any]:
    """Yield lines. Raises one of UNREADABLE for a changed object."""
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
