"""Projects sealed objects into the books. Pure, because the caller passes the books as a protocol."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from settlement.books import bank
from settlement.books.bank import BankLine, BankMatch
from settlement.journal.entries import Aside, Entry, entries
from settlement.journal.objects import lines_of

CHUNK_CHARACTERS = 2**18
"""Maximum characters of a parameter. A longer line is sent alone.

The Data API takes 4 MiB per call and returns 1 MiB. In a call, each quote is escaped twice.
"""

LINE_CHARACTERS_MAX = 400_000
"""Maximum characters stored of a line put aside, so one call holds it. The object keeps the whole line."""

_ENTRIES = """
json_to_recordset(CAST(:rows AS json)) AS i (
    number integer, key text COLLATE "C", step text COLLATE "C", posted_at timestamptz,
    debit text, credit text, amount bigint, currency text, request_hash text)
"""
_KNOW = """
WITH new AS (
    INSERT INTO ledger.object (name, lines) VALUES (:name, :lines) ON CONFLICT DO NOTHING RETURNING 1)
SELECT count(*) FROM new
"""
_LINES = """
json_to_recordset(CAST(:rows AS json)) AS i (
    number integer, line text COLLATE "C", bank_account text, currency text, amount bigint, side text,
    booked date, valued date, bank_reference text, file text, posted_at timestamptz)
"""
_MATCHES = """
json_to_recordset(CAST(:rows AS json)) AS i (
    number integer, line text COLLATE "C", key text COLLATE "C", account text, currency text, amount bigint,
    side text, posted_at timestamptz)
"""


class _Kind(NamedTuple):
    """SQL statements for a kind of row.

    `take` inserts new rows. `different` finds known rows with other content.
    """

    of: type[Any]
    known_by: tuple[str, ...]
    take: str
    different: str


def _kind(of: type[Any], name: str, table: str, rows: str, known_by: tuple[str, ...], late: str) -> _Kind:
    columns = [one.name for one in fields(of)]
    listed, key = ", ".join(columns), ", ".join(known_by)
    ours, theirs = (", ".join(f"{side}.{one}" for one in columns if one not in known_by) for side in "ie")
    take = f"""
WITH new AS (
    INSERT INTO ledger.{table} ({listed}) SELECT {listed} FROM {rows}
    WHERE currency IN (SELECT code FROM ledger.currency)
    ORDER BY {key}, number  -- two projectors with rows in common wait for each other, and never both
    ON CONFLICT DO NOTHING RETURNING {late} AS late)
SELECT count(*), count(*) FILTER (WHERE late) FROM new
"""
    different = f"""
SELECT i.number, CASE WHEN i.currency IN (SELECT code FROM ledger.currency)
    THEN 'another {name} is in the books' ELSE 'currency: is not one of the books' END
FROM {rows} LEFT JOIN ledger.{table} e USING ({key})
WHERE ({ours}) IS DISTINCT FROM ({theirs}) ORDER BY i.number
"""
    return _Kind(of, known_by, take, different)


_ENTRY = _kind(
    Entry, "entry of this key and step", "entry", _ENTRIES, ("key", "step"), "booked_at <> posted_at"
)
_OF_BANK = (
    _kind(BankLine, "line of this identity", "bank_line", _LINES, ("line",), "false"),
    _kind(BankMatch, "match of this line or order", "bank_match", _MATCHES, ("line",), "false"),
)
_PUT_ASIDE = """
WITH new AS (
    INSERT INTO ledger.put_aside (object, line, reason)
    SELECT :name, line, reason FROM json_to_recordset(CAST(:lines AS json)) AS i (line text, reason text)
    RETURNING 1)
SELECT count(*) FROM new
"""


class Query(Protocol):
    def __call__(self, statement: str, **parameters: str | int) -> Sequence[Sequence[Any]]:
        """Run a statement once: a second run would find the rows that the first took."""


class Books(Protocol):
    """A database with the schema `ledger`."""

    def transaction(self) -> AbstractContextManager[Query]:
        """Begin a transaction. The context's end commits it; an exception rolls it back."""


@dataclass
class Projected:
    """Result of a projection.

    - `late`: entries that came after the close of their month.
    - `unreadable`: names of changed objects. The projection leaves them out.
    """

    objects: int = 0
    entries: int = 0
    put_aside: int = 0
    late: int = 0
    unreadable: list[str] = field(default_factory=list)


class _IsKnown(Exception):
    """Raised if the inbox has the object. The rollback leaves no inbox row without entries."""


def project(books: Books, name: str, content: bytes) -> Projected:
    """Take an object's entries into the books, once.

    One transaction writes the inbox's row, the entries and the lines put aside. If two projections run at
    once, the second waits at the inbox. Known entries never change, so an entry with different content is put
    aside. Raises one of UNREADABLE if the object does not match its name.
    """
    found = [one for line in lines_of(name, content) for one in (*entries([line]), *bank.rows([line]))]
    try:
        with books.transaction() as query:
            ((known,),) = query(_KNOW, name=name, lines=len(found))
            if not known:
                raise _IsKnown
            new, late, different = _take(query, _ENTRY, found)
            for kind in _OF_BANK:
                different += _take(query, kind, found)[-1]
            aside = [one for one in found if isinstance(one, Aside)] + different
            for lines in _chunks(_shown(one) for one in aside):
                query(_PUT_ASIDE, name=name, lines=lines)
    except _IsKnown:
        return Projected()
    return Projected(1, new, len(aside), late)


def _take(query: Query, kind: _Kind, found: Sequence[object]) -> tuple[int, int, list[Aside]]:
    """Insert new rows of a kind. Return the numbers of new and late rows, and the rows to put aside."""
    in_order = sorted((one for one in found if isinstance(one, kind.of)), key=attrgetter(*kind.known_by))
    new, late, different = 0, 0, list[Aside]()
    for lines in _chunks({"number": number, **asdict(one)} for number, one in enumerate(in_order)):
        ((taken, of_closed),) = query(kind.take, rows=lines)
        new += taken
        late += of_closed
        for number, reason in query(kind.different, rows=lines):
            different.append(Aside(json.dumps(asdict(in_order[number])), reason))
    return new, late, different


def _shown(aside: Aside) -> dict[str, str]:
    return {"line": aside.line[:LINE_CHARACTERS_MAX], "reason": aside.reason}


def _chunks(told: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    chunk, size = list[str](), 0
    for text in map(json.dumps, told):
        if chunk and size + len(text) > CHUNK_CHARACTERS:
            yield f"[{','.join(chunk)}]"
            chunk, size = [], 0
        chunk.append(text)
        size += len(text) + 1
    if chunk:
        yield f"[{','.join(chunk)}]"
