"""The projection: objects of the sealed journal into the books, each in one transaction."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import psycopg

from settlement.sealing.entries import Aside, Entry, entries
from settlement.sealing.objects import UNREADABLE, Copy, Found, lines_of

_COLUMNS = "key, step, posted_at, debit, credit, amount, currency, request_hash"
_INCOMING = f"""
CREATE TEMP TABLE IF NOT EXISTS incoming ON COMMIT DELETE ROWS AS
SELECT {_COLUMNS} FROM ledger.entry WITH NO DATA
"""
_TAKE = f"""
INSERT INTO ledger.entry ({_COLUMNS})
SELECT {_COLUMNS} FROM incoming WHERE currency IN (SELECT code FROM ledger.currency)
ORDER BY key, step  -- two projectors with entries in common wait for each other, and never both
ON CONFLICT (key, step) DO NOTHING
"""
_DIFFERENT = f"""
SELECT to_jsonb(i)::text, CASE WHEN e.key IS NULL THEN 'currency: is not one of the books'
    ELSE 'another entry of this key and step is in the books' END
FROM incoming i LEFT JOIN ledger.entry e USING (key, step)
WHERE e.key IS NULL OR ({", ".join(f"i.{name}" for name in _COLUMNS.split(", "))})
    IS DISTINCT FROM ({", ".join(f"e.{name}" for name in _COLUMNS.split(", "))})
"""


@dataclass
class Projected:
    """What a projection has done; `unreadable` names the objects that were changed, and left out."""

    objects: int = 0
    entries: int = 0
    put_aside: int = 0
    unreadable: list[str] = field(default_factory=list)


def project(connection: psycopg.Connection, name: str, content: bytes) -> Projected:
    """Take the entries of one object into the books, once; nothing for an object that is in the inbox.

    The inbox, the entries and what is put aside are one transaction. Two at once wait for each other on the
    inbox. What is in the books is never changed: an entry with other content is put aside. Raises one of
    UNREADABLE for an object that is not what its name says.
    """
    found = list(entries(lines_of(name, content)))
    with connection.transaction():
        taken = connection.execute(
            "INSERT INTO ledger.object (name, lines) VALUES (%s, %s) ON CONFLICT DO NOTHING",
            (name, len(found)),
        )
        if not taken.rowcount:
            return Projected()
        aside = [(one.line, one.reason) for one in found if isinstance(one, Aside)]
        new = _take(connection, [one for one in found if isinstance(one, Entry)])
        aside += connection.execute(_DIFFERENT).fetchall()
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO ledger.put_aside (object, line, reason) VALUES (%s, %s, %s)",
                [(name, line, reason) for line, reason in aside],
            )
    return Projected(1, new, len(aside))


def _take(connection: psycopg.Connection, found: Iterable[Entry]) -> int:
    connection.execute(_INCOMING)
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY incoming ({_COLUMNS}) FROM STDIN") as copy:
            for entry in found:
                copy.write_row(entry.values)
        return cursor.execute(_TAKE).rowcount


def waiting(connection: psycopg.Connection, copy: Copy) -> Iterator[Found]:
    """Yield the objects of a sealed journal that are not in the inbox."""
    known = {name for (name,) in connection.execute("SELECT name FROM ledger.object")}
    for found in copy.objects("journal/"):
        if found.name not in known:
            yield found


def project_all(connection: psycopg.Connection, copy: Copy, total: Projected | None = None) -> Projected:
    """Take all that waits, and return the sum; in `total` it is also there if the projection breaks off.

    An object that cannot be read, or is not what its name says, holds up no other one.
    """
    total = total or Projected()
    for found in waiting(connection, copy):
        try:
            one = project(connection, found.name, copy.read(found))
        except (*UNREADABLE, psycopg.DataError) as fault:
            total.unreadable.append(f"{found.name}: {fault}")
            continue
        total.objects += one.objects
        total.entries += one.entries
        total.put_aside += one.put_aside
    return total


def aside(connection: psycopg.Connection) -> list[dict[str, object]]:
    """Return what was put aside, the newest last."""
    rows = connection.execute("SELECT object, reason, line, put_at FROM ledger.put_aside ORDER BY id")
    return [
        {"object": name, "reason": reason, "line": line, "put_at": at.isoformat()}
        for name, reason, line, at in rows
    ]
