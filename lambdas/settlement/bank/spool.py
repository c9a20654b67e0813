"""Lines and orders side by side, on disk: a bank's file may have a million lines.

    orders ──▶ orders ─┐
                       ├─ by name, currency, side and amount ──▶ pairs ──▶ what is left, explained
    lines ──▶ lines ───┘

SQLite's unnamed database has no directory entry: it disappears with this process.
"""

import hashlib
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any

from settlement.bank import matching
from settlement.bank.balances import days_later
from settlement.bank.matching import BankLine, Candidate, Finding, Kind, Order, Recorded
from settlement.bank.statement import Line, Side, Statement

_PRAGMAS = (
    *("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", "temp_store = FILE"),
    "cache_size = -8000",  # kB
)

_TABLES = """
CREATE TABLE orders (key TEXT UNIQUE, account, currency, amount INTEGER, side, reference, day, name);
CREATE TABLE lines (
    identity TEXT UNIQUE, account, currency, amount INTEGER, side, booked, valued, bank_reference, reference,
    returns, statement, file, at INTEGER, part INTEGER, names, told_by, final INTEGER, recorded INTEGER
);
CREATE TABLE names (name, line INTEGER, UNIQUE (name, line));
CREATE TABLE touched (line INTEGER PRIMARY KEY);
CREATE TABLE pairs (line INTEGER PRIMARY KEY, entry INTEGER UNIQUE, known INTEGER DEFAULT 0);
CREATE TABLE matches (line UNIQUE, entry);
CREATE TABLE cancelled (entry INTEGER UNIQUE, opposite INTEGER UNIQUE);
CREATE INDEX by_name ON orders (name, currency, side, amount, day, key);
CREATE INDEX by_line ON names (line);
CREATE INDEX by_bank ON lines (bank_reference, account, booked, part);
"""

_LINES = """
SELECT name, currency, side, amount, valued, lines.rowid FROM names JOIN lines ON lines.rowid = names.line
ORDER BY name, currency, side, amount, valued, identity
"""
_ORDERS = """
SELECT name, currency, side, amount, day, orders.rowid FROM orders
WHERE orders.rowid NOT IN (SELECT entry FROM pairs)
    AND orders.rowid NOT IN (SELECT entry FROM cancelled) ORDER BY name, currency, side, amount, day, key
"""

_FITTING = """
SELECT pairs.line, givers.rowid, givers.* FROM orders JOIN names USING (name)
JOIN lines ON lines.rowid = names.line AND lines.currency = orders.currency AND lines.side = orders.side
    AND lines.amount = orders.amount AND abs(julianday(lines.valued) - julianday(orders.day)) <= ?
JOIN pairs ON pairs.line = lines.rowid JOIN orders AS givers ON givers.rowid = pairs.entry
WHERE orders.rowid = ? AND NOT pairs.known ORDER BY lines.valued, lines.identity LIMIT 1000
"""
"""Selects the lines that fit an order, each with the order that is paired with it now."""

_CANCEL = """
INSERT OR IGNORE INTO cancelled
SELECT one.rowid, other.rowid FROM orders AS one JOIN orders AS other USING (name, account, currency, amount)
WHERE one.side = 'in' AND other.side = 'out' AND one.currency = ? AND min(one.day, other.day) >= ?
    AND one.rowid NOT IN (SELECT entry FROM pairs) AND other.rowid NOT IN (SELECT entry FROM pairs)
    AND one.rowid NOT IN (SELECT entry FROM cancelled) AND other.rowid NOT IN (SELECT entry FROM cancelled)
ORDER BY one.day, one.key, other.day, other.key
"""

_NO_LINE = (
    "orders.rowid NOT IN (SELECT entry FROM pairs) AND orders.rowid NOT IN (SELECT entry FROM cancelled)"
    " AND orders.rowid NOT IN (SELECT opposite FROM cancelled WHERE opposite IS NOT NULL)"
)

_OF_LINE = (
    "currency = ?1 AND booked <= ?2 AND EXISTS (SELECT 1 FROM pairs JOIN orders ON orders.rowid = pairs.entry"
    " WHERE pairs.line = lines.rowid AND orders.day > ?2)"
)
_OF_ORDER = (
    "currency = ?1 AND day <= ?2 AND EXISTS (SELECT 1 FROM pairs JOIN lines ON lines.rowid = pairs.line"
    " WHERE pairs.entry = orders.rowid AND lines.booked > ?2)"
)
_HALF = (
    "currency = ?1 AND day <= ?2 AND orders.rowid IN (SELECT {0} FROM cancelled"
    " JOIN orders AS other ON other.rowid = {1} WHERE other.day > ?2)"
)

_WHOLES = """
SELECT rowid, account, currency, booked, bank_reference, CASE side WHEN 'in' THEN amount ELSE -amount END
FROM lines AS whole WHERE part = 0 AND bank_reference <> '' AND EXISTS (
    SELECT 1 FROM lines AS parts WHERE parts.bank_reference = whole.bank_reference
    AND parts.account = whole.account AND parts.booked = whole.booked AND parts.part > 0
)
"""

_JOIN = """
INSERT OR IGNORE INTO pairs SELECT lines.rowid, coalesce(orders.rowid, -lines.rowid), 1
FROM matches JOIN lines ON lines.identity = matches.line LEFT JOIN orders ON orders.key = matches.entry
"""
_JOIN_ALONE = """
INSERT OR IGNORE INTO cancelled SELECT orders.rowid, NULL
FROM matches JOIN orders ON orders.key = matches.entry
WHERE matches.line NOT IN (SELECT identity FROM lines)
"""
"""Adds the pairs on record. If only one half is in the spool, it needs no partner."""

_CANDIDATES_MAX = 20
_NUMBERS_MAX = 200
_BILLION = 10**9


class Spool:
    """The lines and orders of one comparison. Add all orders first, and each statement after its lines."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        for pragma in _PRAGMAS:
            self._database.execute(f"PRAGMA {pragma}")
        self._database.executescript(_TABLES)
        self._database.execute("BEGIN")
        self._numbers: dict[tuple[str, str], int] = {}
        """Last number of each repeated reference in a file."""

    def __enter__(self) -> "Spool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    def add_order(self, order: Order) -> None:
        name = order.reference.casefold()
        self._database.execute("INSERT OR IGNORE INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*order, name))

    def add_line(self, line: Line, file: str) -> Finding | None:
        """Add a line once.

        Return a finding if an earlier file has the line with another amount. Statements may overlap, and a
        camt.054 reports lines before their statement. Several lines with one reference are numbered. A line
        of 0.00 is left out.
        """
        if not line.amount:
            return None
        number = self._number(line, file)
        told = _shown(line, file, number)
        known = self._known(told.identity)
        if known is None:
            self._insert(line, told, file)
            return None
        rowid, earlier, _ = known
        self._database.execute("UPDATE lines SET told_by = ? WHERE rowid = ?", (file, rowid))
        self._touch(rowid, line)
        if (earlier.amount, earlier.side) == (told.amount, told.side):
            return None
        where = f"line {earlier.at} of {earlier.file} has another amount"
        return Finding(Kind.CHANGED, told.currency, told.amount, told, text=where)

    def _number(self, line: Line, file: str) -> int:
        place = (file, line.identity)
        number = 1 if (last := self._numbers.get(place, 0)) < _NUMBERS_MAX else last
        while known := self._known(_identity(line, number)):
            _, earlier, told_by = known
            if told_by != file and _is_same(earlier, self._names(known[0]), line):
                break
            number += 1
        if number > 1:
            self._numbers[place] = max(number, last)
        return number

    def _insert(self, line: Line, told: BankLine, file: str) -> None:
        rowid = self._insert_row(told, line.part, line.references, file, is_recorded=False)
        self._touch(rowid, line)

    def add_recorded(self, one: Recorded) -> None:
        """Add a line on record, of a statement with balances. Call it before `add_line` of any file."""
        rowid = self._insert_row(one.line, one.part, one.references, "", is_recorded=True)
        self._name(rowid, (*one.references, one.line.bank_reference))

    def _insert_row(
        self, told: BankLine, part: int, references: Iterable[str], file: str, *, is_recorded: bool
    ) -> int:
        values = (*told, part, "\n".join(references), file, is_recorded, is_recorded)
        cursor = self._database.execute(
            f"INSERT INTO lines VALUES ({', '.join('?' * len(values))})",  # noqa: S608
            values,
        )
        return cursor.lastrowid or 0

    def _touch(self, rowid: int, line: Line) -> None:
        self._database.execute("INSERT OR IGNORE INTO touched VALUES (?)", (rowid,))
        self._name(rowid, (*line.references, line.bank_reference))

    def _name(self, rowid: int, references: Iterable[str]) -> None:
        for reference in references:
            self._database.execute(
                "INSERT OR IGNORE INTO names SELECT ?1, ?2"
                " WHERE EXISTS (SELECT 1 FROM orders WHERE name = ?1)",
                (reference.casefold(), rowid),
            )

    def _known(self, identity: str) -> tuple[int, BankLine, str] | None:
        rows = self._database.execute("SELECT *, rowid FROM lines WHERE identity = ?", (identity,))
        return next(((row[-1], _line(row), row[-4]) for row in rows), None)

    def _names(self, rowid: int) -> set[str]:
        ((names,),) = self._database.execute("SELECT names FROM lines WHERE rowid = ?", (rowid,))
        return set(filter(None, names.split("\n")))

    def add_statement(self, statement: Statement) -> None:
        if statement.closing is not None:
            self._database.execute("UPDATE lines SET final = 1 WHERE rowid IN (SELECT line FROM touched)")
        self._database.execute("DELETE FROM touched")

    def settle(self, covered: Iterable[tuple[str, str, str, str]]) -> None:
        """Remove repeated lines.

        A batch's parts replace its sum. In periods `covered` by statements with balances (account, currency,
        first and last day), only these statements' lines stay.
        """
        for rowid, *place, whole in self._database.execute(_WHOLES).fetchall():
            parts = self._database.execute(
                "SELECT rowid, CASE side WHEN 'in' THEN amount ELSE -amount END FROM lines"
                " WHERE account = ? AND currency = ? AND booked = ? AND bank_reference = ? AND part > 0",
                place,
            ).fetchall()
            if sum(amount for _, amount in parts) == whole:
                self._database.execute("DELETE FROM lines WHERE rowid = ?", (rowid,))
                self._database.executemany(
                    "UPDATE lines SET final = 1 WHERE rowid = ?", [(part,) for part, _ in parts]
                )
        self._database.executemany(
            "DELETE FROM lines WHERE final = 0 AND account = ? AND currency = ? AND booked BETWEEN ? AND ?",
            covered,
        )

    def add_match(self, line: str, order: str) -> None:
        """Add a recorded pair: neither its line nor its order is paired again."""
        self._database.execute("INSERT OR IGNORE INTO matches VALUES (?, ?)", (line, order))

    def unrecorded(self) -> Iterator[Recorded]:
        """Yield each line that is not on record, in the order of its file."""
        for row in self._database.execute("SELECT * FROM lines WHERE recorded = 0 ORDER BY rowid"):
            part, names = row[len(BankLine._fields) : len(BankLine._fields) + 2]
            yield Recorded(_line(row), part, frozenset(filter(None, names.split("\n"))))

    def pair(self, days: int) -> int:
        """Pair lines with orders that are at most `days` apart. Return the number of pairs.

        The oldest line takes the oldest order that fits. As `days` is the same for all, this finds the most
        pairs.
        """
        self._database.execute(_JOIN)
        self._database.execute(_JOIN_ALONE)
        orders = self._database.execute(_ORDERS)
        order = next(orders, None)
        for *group, valued, line in self._database.execute(_LINES):
            if self._is_paired(line):
                continue
            oldest = [*group, days_later(valued, -days)]
            while order and [*order[:5]] < oldest:
                order = next(orders, None)
            if order and [*order[:4]] == group and order[4] <= days_later(valued, days):
                self._database.execute("INSERT INTO pairs (line, entry) VALUES (?, ?)", (line, order[5]))
                order = next(orders, None)
        ((found,),) = self._database.execute("SELECT count(*) FROM pairs")
        return int(found)

    def exchange(self, key: str, days: int, keeps: Callable[[Order], bool]) -> bool:
        """Give the order `key` a fitting line of an order that needs none. Return whether one was found.

        `keeps`: whether an order needs a line. Such an order can only swap its line for another, in a chain.
        """
        ((start,),) = self._database.execute("SELECT rowid FROM orders WHERE key = ?", (key,))
        came: dict[int, tuple[int, int]] = {}
        looking = deque([start])
        while looking:
            taker = looking.popleft()
            for line, giver, *row in self._database.execute(_FITTING, (days, taker)).fetchall():
                if giver == start or giver in came:
                    continue
                came[giver] = (line, taker)
                if keeps(_order(row)):
                    looking.append(giver)
                    continue
                moves = [came[giver]]
                while moves[-1][1] != start:
                    moves.append(came[moves[-1][1]])
                self._database.executemany("DELETE FROM pairs WHERE line = ?", [(one,) for one, _ in moves])
                self._database.executemany("INSERT INTO pairs (line, entry) VALUES (?, ?)", moves)
                return True
        return False

    def _is_paired(self, line: int) -> bool:
        return bool(self._database.execute("SELECT 1 FROM pairs WHERE line = ?", (line,)).fetchone())

    def cancel(self, currency: str, since: str) -> None:
        """Pair mistaken orders with the orders that undo them, as the bank has no line for either."""
        self._database.execute(_CANCEL, (currency, since))

    def pairs(self, *, are_new: bool = False) -> Iterator[tuple[BankLine, Order]]:
        """Yield the pairs, or only new pairs, oldest line first."""
        found = self._database.execute(
            "SELECT lines.*, orders.* FROM pairs JOIN lines ON lines.rowid = pairs.line"
            " JOIN orders ON orders.rowid = pairs.entry WHERE pairs.known <= ? ORDER BY valued, identity",
            (not are_new,),
        )
        for row in found:
            yield _line(row), _order(row[-len(Order._fields) - 1 :])

    def lines_left(self, days: int) -> Iterator[Finding]:
        """Yield findings of lines without an order, oldest first."""
        left = self._database.execute(
            "SELECT lines.rowid, lines.* FROM lines LEFT JOIN pairs ON pairs.line = lines.rowid"
            " WHERE pairs.line IS NULL ORDER BY valued, identity"
        )
        for rowid, *row in left:
            line = _line(row)
            yield matching.of_line(line, list(self._candidates(rowid, line)), days)

    def _candidates(self, rowid: int, line: BankLine) -> Iterator[Candidate]:
        exact = "AND orders.currency = ?2 AND orders.side = ?3 AND orders.amount = ?4"
        for more in (f"{exact} AND pairs.line IS NULL", exact, ""):
            found = self._database.execute(
                "SELECT orders.*, pairs.line IS NOT NULL FROM names JOIN orders USING (name)"  # noqa: S608
                f" LEFT JOIN pairs ON pairs.entry = orders.rowid WHERE names.line = ?1 {more} LIMIT ?5",
                (rowid, line.currency, line.side, line.amount, _CANDIDATES_MAX),
            )
            for *one, is_taken in found:
                yield Candidate(_order(one), bool(is_taken))

    def orders_left(self) -> Iterator[tuple[Order, Finding]]:
        """Yield each order without a line, oldest first, with its finding."""
        left = self._database.execute(
            f"SELECT * FROM orders WHERE {_NO_LINE} ORDER BY day, key"  # noqa: S608
        )
        for row in left:
            order = _order(row)
            taken = self._database.execute(
                "SELECT lines.* FROM names JOIN lines ON lines.rowid = names.line"
                " JOIN pairs ON pairs.line = lines.rowid WHERE names.name = ? AND currency = ? AND side = ?"
                " AND amount = ? LIMIT 1",
                (row[-1], order.currency, order.side, order.amount),
            )
            yield order, matching.of_order(order, next((_line(one) for one in taken), None))

    def has_equal(self, order: Order, side: Side, before: str) -> bool:
        """Whether an order before this day, on this `side`, has the reference, currency and amount."""
        found = self._database.execute(
            "SELECT 1 FROM orders WHERE name = ? AND currency = ? AND side = ? AND amount = ? AND day < ?",
            (order.reference.casefold(), order.currency, side, order.amount, before),
        )
        return found.fetchone() is not None

    def currencies(self) -> dict[str, int]:
        return dict(self._database.execute("SELECT currency, count(*) FROM orders GROUP BY currency"))

    def books(self, currency: str, until: str) -> int:
        """Signed sum of orders up to a day, in minor units."""
        return self._sum("orders", "currency = ?1 AND day <= ?2", currency, until)

    def early(self, currency: str, until: str) -> int:
        """Sum of lines up to a day whose orders came after the day."""
        return self._sum("lines", _OF_LINE, currency, until)

    def late(self, currency: str, until: str) -> int:
        """Sum of orders up to a day whose lines came after the day."""
        return self._sum("orders", _OF_ORDER, currency, until)

    def only_bank(self, currency: str, until: str) -> int:
        where = "currency = ?1 AND booked <= ?2 AND rowid NOT IN (SELECT line FROM pairs)"
        return self._sum("lines", where, currency, until)

    def only_books(self, currency: str, since: str, until: str) -> int:
        """Sum of orders without a line, or undone only after `until`."""
        alone = self._sum(
            "orders", f"currency = ?1 AND day <= ?2 AND day >= ?3 AND {_NO_LINE}", currency, until, since
        )
        halves = (_HALF.format(*both) for both in (("entry", "opposite"), ("opposite", "entry")))
        return alone + sum(self._sum("orders", half, currency, until) for half in halves)

    def _sum(self, table: str, where: str, *values: str) -> int:
        """Sum signed amounts in two halves: SQLite's integers could overflow."""
        signed = "CASE side WHEN 'in' THEN amount ELSE -amount END"
        ((high, low),) = self._database.execute(
            f"SELECT coalesce(sum({signed} / {_BILLION}), 0), coalesce(sum({signed} % {_BILLION}), 0)"  # noqa: S608
            f" FROM {table} WHERE {where}",
            values,
        )
        return int(high) * _BILLION + int(low)


def _is_same(earlier: BankLine, names: set[str], line: Line) -> bool:
    """Whether two files' lines are one: for equal amounts by names, if any; else by first reference."""
    if (earlier.amount, earlier.side) == (line.amount, line.side):
        return not names or not line.references or bool(names & set(line.references))
    return bool(line.bank_reference and line.references) and earlier.reference == line.references[0]


def _identity(line: Line, number: int) -> str:
    if number == 1:
        return line.identity
    return hashlib.sha256(f"{line.identity} {number}".encode()).hexdigest()


def _shown(line: Line, file: str, number: int) -> BankLine:
    return BankLine(
        identity=_identity(line, number),
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
    found = Order._make(row[: len(Order._fields)])
    return found._replace(side=Side(found.side))
