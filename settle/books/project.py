import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from settlement.books import page as books
from settlement.books.page import Projected
from settlement.journal.objects import UNREADABLE, Copy, Found

_PARAMETER = re.compile(r"(?<!:):([a-z]+)")


class Connected:
    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    @contextmanager
    def transaction(self) -> Iterator[books.Query]:
        with self._connection.transaction():
            yield self._query

    def _query(self, statement: str, **parameters: str | int) -> list[tuple[Any, ...]]:
        ours = _PARAMETER.sub(r"%(\1)s", statement)
        return self._connection.execute(ours.encode(), parameters).fetchall()


def project(connection: psycopg.Connection, name: str, content: bytes) -> Projected:
    """Copy one object of the journal into the books. A repeat changes nothing. Raises one of UNREADABLE."""
    return books.project(Connected(connection), name, content)


def waiting(connection: psycopg.Connection, copy: Copy) -> Iterator[Found]:
    known = {name for (name,) in connection.execute("SELECT name FROM ledger.object")}
    for found in copy.objects("journal/"):
        if found.name not in known:
            yield found


def project_all(connection: psycopg.Connection, copy: Copy, total: Projected | None = None) -> Projected:
    """Copy the journal's new objects. `total` keeps the counts if an exception ends the copying.

    An unreadable or misnamed object does not block others.
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
        total.late += one.late
        total.put_aside += one.put_aside
    return total


def aside(connection: psycopg.Connection) -> list[dict[str, object]]:
    rows = connection.execute("SELECT object, reason, line, put_at FROM ledger.put_aside ORDER BY id")
    return [
        {"object": name, "reason": reason, "line": line, "put_at": at.isoformat()}
        for name, reason, line, at in rows
    ]
