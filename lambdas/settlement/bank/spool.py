"""Lines and orders side by side, on disk: a bank's file may have a million lines.

    orders ──▶ orders ──┐
                        ├─ edges, by reference ──▶ pairs ──▶ what is left, explained
    lines ───▶ lines ───┘

SQLite's unnamed database has no directory entry: it disappears with this process.
"""

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from settlement.bank import matching
from settlement.bank.matching import BankLine, Candidate, Finding, Kind, Order
from settlement.bank.statement import Line, Side

_PRAGMAS = (
    *("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", "temp_store = FILE"),
    "cache_size = -8000",  # kB
)

_TABLES = """
CREATE TABLE orders (key TEXT UNIQUE, account, currency, amount INTEGER, side, reference, day);
CREATE TABLE lines (
    identity TEXT UNIQUE, account, currency, amount INTEGER, side, booked, valued, bank_reference, reference,
    returns, statement, file, at INTEGER, told_by
);
CREATE TABLE edges (line INTEGER, entry INTEGER, UNIQUE (line, entry));
CREATE TABLE pairs (line INTEGER PRIMARY KEY, entry INTEGER UNIQUE);
CREATE TABLE cancelled (entry INTEGER UNIQUE, opposite INTEGER UNIQUE);
CREATE INDEX by_reference ON orders (reference);
CREATE INDEX by_entry ON edges (entry);
"""

_PAIR = """
INSERT OR IGNORE INTO pairs
SELECT lines.rowid, orders.rowid FROM edges
JOIN lines ON lines.rowid = edges.line JOIN orders ON orders.rowid = edges.entry
WHERE lines.currency = orders.currency AND lines.side = orders.side AND lines.amount = orders.amount
    AND abs(julianday(lines.valued) - julianday(orders.day)) <= ?
ORDER BY lines.valued, lines.identity, orders.day, orders.key
"""
"""The oldest line takes the oldest free order that fits. As all bounds are equal, no other way finds more."""

_CANCEL = """
INSERT OR IGNORE INTO cancelled
SELECT one.rowid, other.rowid FROM orders AS one
JOIN orders AS other USING (reference, account, currency, amount)
WHERE one.side = 'in' AND other.side = 'out'
    AND one.rowid NOT IN (SELECT entry FROM pairs) AND other.rowid NOT IN (SELECT entry FROM pairs)
ORDER BY one.day, one.key, other.day, other.key
"""
"""A mistaken order and its opposite are no business of the bank's."""

_HALVES = """
SELECT coalesce(sum(CASE WHEN one.day > other.day THEN -one.amount ELSE one.amount END), 0)
FROM cancelled JOIN orders AS one ON one.rowid = entry JOIN orders AS other ON other.rowid = opposite
WHERE one.currency = ? AND min(one.day, other.day) <= ? AND max(one.day, other.day) > ?
"""

_NO_LINE = (
    "orders.rowid NOT IN (SELECT entry FROM pairs) AND orders.rowid NOT IN (SELECT entry FROM cancelled)"
    " AND orders.rowid NOT IN (SELECT opposite FROM cancelled)"
)

_SIGNED = "CASE side WHEN 'in' THEN amount ELSE -amount END"


class Spool:
    """One comparison. Add all orders before the first line."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        for pragma in _PRAGMAS:
            self._database.execute(f"PRAGMA {pragma}")
        self._database.executescript(_TABLES)
        self._database.execute("BEGIN")
        self._numbers: dict[tuple[str, str], int] = {}
        """The last number of each repeated reference in a place: a statement of a file."""

    def __enter__(self) -> "Spool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    def add_order(self, order: Order) -> None:
        self._database.execute("INSERT OR IGNORE INTO orders VALUES (?, ?, ?, ?, ?, ?, ?)", order)

    def add_line(self, line: Line, file: str) -> Finding | None:
        """Add a line once. Return a finding if an earlier file has it with another amount.

        Statements may overlap, and a camt.054 tells lines before their statement. A bank may use a reference
        for several lines of one statement: these are numbered.
        """
        place = f"{file}\n{line.statement}"
        number = self._numbers.get((place, line.identity), 1)
        told = _shown(line, file, number)
        while (known := self._known(told.identity)) and known[1] == place:
            self._numbers[place, line.identity] = number = number + 1
            told = _shown(line, file, number)
        if known:
            self._database.execute("UPDATE lines SET told_by = ? WHERE identity = ?", (place, told.identity))
            is_same = (known[0].amount, known[0].side) == (told.amount, told.side)
            where = f"line {known[0].at} of {known[0].file} has another amount"
            return None if is_same else Finding(Kind.CHANGED, told.currency, told.amount, told, text=where)
        cursor = self._database.execute(
            f"INSERT INTO lines VALUES ({', '.join('?' * len(told))}, ?)",  # noqa: S608
            (*told, place),
        )
        self._connect(cursor.lastrowid, line.references)
        return None

    def _known(self, identity: str) -> tuple[BankLine, str] | None:
        """Return the line of an identity, and the place that told it last."""
        rows = self._database.execute("SELECT * FROM lines WHERE identity = ?", (identity,))
        return next(((_line(row), row[-1]) for row in rows), None)

    def _connect(self, line: int | None, references: tuple[str, ...]) -> None:
        for reference in references:
            self._database.execute(
                "INSERT OR IGNORE INTO edges SELECT ?, rowid FROM orders WHERE reference = ?",
                (line, reference),
            )

    def pair(self, days: int) -> int:
        """Pair lines with orders, at most so many days apart. Return the number of pairs."""
        self._database.execute(_PAIR, (days,))
        self._database.execute(_CANCEL)
        ((found,),) = self._database.execute("SELECT count(*) FROM pairs")
        return int(found)

    def pairs(self) -> Iterator[tuple[BankLine, Order]]:
        """Yield the pairs, oldest line first."""
        found = self._database.execute(
            "SELECT lines.*, orders.* FROM pairs JOIN lines ON lines.rowid = pairs.line"
            " JOIN orders ON orders.rowid = pairs.entry ORDER BY valued, identity"
        )
        for row in found:
            yield _line(row), _order(row[len(BankLine._fields) + 1 :])

    def lines_left(self, days: int) -> Iterator[Finding]:
        """Yield a finding for each line without an order, oldest first."""
        left = self._database.execute(
            "SELECT lines.rowid, lines.* FROM lines LEFT JOIN pairs ON pairs.line = lines.rowid"
            " WHERE pairs.line IS NULL ORDER BY valued, identity"
        )
        for rowid, *row in left:
            line = _line(row)
            taken = self._database.execute(
                "SELECT orders.*, pairs.line IS NOT NULL FROM edges JOIN orders ON orders.rowid = edges.entry"
                " LEFT JOIN pairs ON pairs.entry = orders.rowid WHERE edges.line = ? ORDER BY day, key",
                (rowid,),
            )
            candidates = [Candidate(_order(one), line, bool(is_taken)) for *one, is_taken in taken]
            yield matching.of_line(line, candidates, days)

    def orders_left(self) -> Iterator[tuple[Order, Finding]]:
        """Yield each order without a line, oldest first, with its finding."""
        left = self._database.execute(
            f"SELECT orders.rowid, orders.* FROM orders WHERE {_NO_LINE} ORDER BY day, key"  # noqa: S608
        )
        for rowid, *row in left:
            order = _order(row)
            taken = self._database.execute(
                "SELECT lines.* FROM edges JOIN lines ON lines.rowid = edges.line"
                " JOIN pairs ON pairs.line = lines.rowid WHERE edges.entry = ? ORDER BY valued, identity",
                (rowid,),
            )
            yield order, matching.of_order(order, [Candidate(order, _line(one), True) for one in taken])

    def books(self, currency: str, until: str) -> int:
        """Return what the orders up to the end of a day have brought in, in minor units."""
        return self._sum("orders", "currency = ? AND day <= ?", currency, until)

    def early(self, currency: str, until: str) -> int:
        """Return the sum of lines up to a day whose orders came later."""
        return self._sum("lines", f"{_OF_LINE} AND orders.day > ?3)", currency, until, until)

    def late(self, currency: str, until: str) -> int:
        """Return the sum of orders up to a day whose lines came later."""
        return self._sum("orders", f"{_OF_ORDER} AND lines.booked > ?3)", currency, until, until)

    def only_bank(self, currency: str, until: str) -> int:
        where = "currency = ? AND booked <= ? AND rowid NOT IN (SELECT line FROM pairs)"
        return self._sum("lines", where, currency, until)

    def only_books(self, currency: str, since: str, until: str) -> int:
        """Return the sum of orders without a line, with halves of pairs that cancel out later."""
        where = f"currency = ? AND day >= ? AND day <= ? AND {_NO_LINE}"
        ((halves,),) = self._database.execute(_HALVES, (currency, until, until))
        return self._sum("orders", where, currency, since, until) + int(halves)

    def _sum(self, table: str, where: str, *values: str) -> int:
        ((found,),) = self._database.execute(
            f"SELECT coalesce(sum({_SIGNED}), 0) FROM {table} WHERE {where}",  # noqa: S608
            values,
        )
        return int(found)


_OF_LINE = (
    "currency = ?1 AND booked <= ?2 AND EXISTS (SELECT 1 FROM pairs JOIN orders ON orders.rowid = pairs.entry"
    " WHERE pairs.line = lines.rowid"
)
_OF_ORDER = (
    "currency = ?1 AND day <= ?2 AND EXISTS (SELECT 1 FROM pairs JOIN lines ON lines.rowid = pairs.line"
    " WHERE pairs.entry = orders.rowid"
)


def _shown(line: Line, file: str, number: int) -> BankLine:
    identity = line.identity
    if number > 1:
        identity = hashlib.sha256(f"{identity} {number}".encode()).hexdigest()
    return BankLine(
        identity=identity,
        account=line.account,
        currency=line.currency,
        amount=line.amount,
        side=line.side,
        booked=line.booked,
        valued=line.valued,
        bank_reference=line.bank_reference,
        reference=line.references[0] if line.references else "",
        returns=line.returns,
        statement=line.statement,
        file=file,
        at=line.at,
    )


def _line(row: Sequence[Any]) -> BankLine:
    found = BankLine._make(row[: len(BankLine._fields)])
    return found._replace(side=Side(found.side))


def _order(row: Sequence[Any]) -> Order:
    found = Order._make(row)
    return found._replace(side=Side(found.side))
