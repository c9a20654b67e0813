"""Recording of a bank's statement, each line with its order.

    file ──▶ read: is it whole? ──▶ read again, match with recorded lines and orders ──▶ rows

Each row is put once, and the file's own row last. After a run dies, the next run continues from the record.
Even if two runs overlap, a line has at most one order.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import BinaryIO, NamedTuple, TypeVar

from settlement.bank import balances, camt, record
from settlement.bank.balances import days_later
from settlement.bank.fields import refuse
from settlement.bank.matching import DAYS, Finding, Recorded
from settlement.bank.record import File
from settlement.bank.recorded import BankRecord
from settlement.bank.spool import Spool
from settlement.bank.statement import Line, Statement
from settlement.core.ledger.transaction import AlreadyApplied, Write
from settlement.core.model.timestamps import timestamp

T = TypeVar("T")
InTime = Callable[[], bool]
Listing = Callable[[Recorded], Write | None]


class Told(NamedTuple):
    """A run's counts. `is_whole`: false if time ran out."""

    lines: int
    matched: int
    findings: Sequence[Finding]
    is_whole: bool


class Content(NamedTuple):
    statements: list[Statement]
    first: str
    last: str


class _OutOfTime(Exception):
    pass


class Recorder:
    def __init__(
        self, record: BankRecord, now: datetime, in_time: InTime, listing: Sequence[Listing] = ()
    ) -> None:
        """`listing`: functions that may each add a write to the transaction of a new line."""
        self._record, self._now, self._in_time, self._listing = record, timestamp(now), in_time, listing
        self._lines = self._matched = 0

    def read(self, file: BinaryIO) -> Content:
        """Read a camt.053 to its end. Raises UnreadableStatement."""
        statements, days = list[Statement](), set[str]()
        for one in camt.read(file, self._record.config.currencies):
            if isinstance(one, Line):
                days |= {one.booked, one.valued}
            elif None in (one.opening, one.closing):
                refuse(1, "Bal", "must have the opening and the closing balance, as in a camt.053")
            else:
                statements.append(one)
                days |= {one.first, one.last}
        return Content(statements, min(days), max(days))

    def add(self, content: BinaryIO, found: Content, file: File) -> Told:
        with Spool() as spool:
            self._beside(spool, found.first, found.last)
            findings = [
                fault
                for one in camt.read(content, self._record.config.currencies)
                if (fault := _added(spool, one, file.name))
            ]
            spool.settle(balances.covered(balances.in_order(found.statements)))
            is_whole = self._put(spool, file, found.statements)
        return Told(self._lines, self._matched, findings, is_whole)

    def match(self, first: str, last: str) -> Told:
        """Match recorded lines of these days with later orders."""
        with Spool() as spool:
            self._beside(spool, first, last)
            is_whole = self._put(spool)
        return Told(0, self._matched, [], is_whole)

    def _beside(self, spool: Spool, first: str, last: str) -> None:
        self._record.add_orders(spool, (days_later(first, -DAYS), days_later(last, DAYS)))
        self._record.add_lines(spool, (first, last))

    def _put(self, spool: Spool, file: File | None = None, statements: Sequence[Statement] = ()) -> bool:
        spool.pair(DAYS)
        try:
            if file:
                self._put_lines(spool, file, statements)
            for line, order in self._each(spool.pairs(are_new=True)):
                with suppress(AlreadyApplied):  # by another run, perhaps with another order
                    self._record.store.transact(record.match(record.matched(line, order, self._now)))
                    self._matched += 1
            if file:
                self._record.store.put(
                    record.file(file, len(statements), sum(one.lines for one in statements))
                )
        except _OutOfTime:
            return False
        return True

    def _put_lines(self, spool: Spool, file: File, statements: Sequence[Statement]) -> None:
        for number, statement in enumerate(statements):
            self._record.store.put(record.statement(statement, number, file))
        for one in self._each(spool.unrecorded()):
            self._put_line(record.line(one, file), [found for add in self._listing if (found := add(one))])
            self._lines += 1

    def _put_line(self, line: Write, listed: Sequence[Write]) -> None:
        if not listed:
            self._record.store.put(line)
            return
        with suppress(AlreadyApplied):  # both rows, by another run
            self._record.store.transact((line, *listed))

    def _each(self, items: Iterator[T]) -> Iterator[T]:
        for one in items:
            if not self._in_time():
                raise _OutOfTime
            yield one


def _added(spool: Spool, one: Line | Statement, file: str) -> Finding | None:
    if isinstance(one, Line):
        return spool.add_line(one, file)
    spool.add_statement(one)
    return None
