"""Differences between the bank's lines and the books' orders, and the remedies.

Only a reference matches a line with an order; name, amount and day do not suffice. Amounts are in minor
units, days as 2026-11-27.
"""

from collections.abc import Sequence
from datetime import date
from enum import StrEnum
from typing import NamedTuple

from settlement.bank.statement import Side

DAYS = 3
"""Maximum days between an order and its line's value date: a weekend, and the bank's time zone."""


class Order(NamedTuple):
    """A deposit or withdrawal of the books, its UTC `day`, and the `side` of its line at the bank."""

    key: str
    account: str
    currency: str
    amount: int
    side: Side
    reference: str
    day: str

    @property
    def signed(self) -> int:
        return self.amount if self.side is Side.IN else -self.amount


class BankLine(NamedTuple):
    """A statement's line, with its file, statement and line number."""

    identity: str
    account: str
    currency: str
    amount: int
    side: Side
    booked: str
    valued: str
    bank_reference: str
    reference: str
    """The first reference, for display."""

    returns: str
    statement: str
    file: str
    at: int


class Recorded(NamedTuple):
    """A recorded line. `part`: the number within a batch. `references`: all names of the line."""

    line: BankLine
    part: int
    references: frozenset[str]


class Kind(StrEnum):
    ONLY_BANK = "only at the bank"
    ONLY_BOOKS = "only in the books"
    AMOUNT = "amount differs"
    CURRENCY = "currency differs"
    APART = "too many days apart"
    RETURN = "returned"
    BANK_TWICE = "twice at the bank"
    BOOKS_TWICE = "twice in the books"
    CHANGED = "line changed"
    SUM = "statement does not add up"
    GAP = "statement missing"
    NO_STATEMENT = "currency without a statement"
    LEFT = "not explained"


TODO = {
    Kind.ONLY_BANK: "find whose money it is, and book it with one of the line's references",
    Kind.ONLY_BOOKS: "ask the bank for it; if it never came, book the opposite order with the same reference",
    Kind.AMOUNT: "if the line is the order's, book the opposite order, then the line's amount",
    Kind.CURRENCY: "if the line is the order's, book the opposite order, then one in the line's currency",
    Kind.APART: "if the line is the order's, pass more --days",
    Kind.RETURN: "book it with the reference of what it returns",
    Kind.BANK_TWICE: "find whose money the second one is, and book it, or ask the bank",
    Kind.BOOKS_TWICE: "if the second order is a mistake, book the opposite order with the same reference",
    Kind.CHANGED: "ask the bank for a right statement: one line has two contents",
    Kind.SUM: "ask the bank for a right statement: the lines do not lead from opening to closing balance",
    Kind.GAP: "get the missing statement or page, and pass it too",
    Kind.NO_STATEMENT: "pass the statements of this currency too, or --currency with the one to compare",
    Kind.LEFT: "pass the earlier statements too, or --before with the money from before the books began",
}


class Finding(NamedTuple):
    """A difference of bank and books.

    `order` or `line` is None if missing; `text` has facts that only this kind has.
    """

    kind: Kind
    currency: str
    amount: int
    line: BankLine | None = None
    order: Order | None = None
    text: str = ""


class Candidate(NamedTuple):
    """An order that a line names, and whether another line has it."""

    order: Order
    is_taken: bool


def of_line(line: BankLine, candidates: Sequence[Candidate], days: int) -> Finding:
    """Explain a line without an order by the best fit among the orders that the line names."""

    def told(kind: Kind, order: Order | None = None, text: str = "") -> Finding:
        return Finding(kind, line.currency, line.amount, line, order, text)

    of_currency = [one for one in candidates if one.order.currency == line.currency]
    same_side = [one for one in of_currency if one.order.side is line.side]
    exact = [one for one in same_side if one.order.amount == line.amount]
    opposite = [one for one in of_currency if one.order.side is not line.side]
    free = [one for one in exact if not one.is_taken]
    if opposite and (line.returns or not same_side):
        return told(Kind.RETURN, _nearest(opposite, line.amount).order, line.returns)
    if free:
        return told(Kind.APART, free[0].order, f"{apart(line.valued, free[0].order.day)} days, not {days}")
    if exact:
        return told(Kind.BANK_TWICE, exact[0].order)
    if other := [one for one in same_side if not one.is_taken]:
        return told(Kind.AMOUNT, _nearest(other, line.amount).order)
    if candidates and not of_currency:
        return told(Kind.CURRENCY, candidates[0].order)
    return told(Kind.RETURN if line.returns else Kind.ONLY_BANK, None, line.returns)


def of_order(order: Order, twin: BankLine | None) -> Finding:
    """Explain an order without a line. `twin`: a line that fits, but has another order."""
    kind = Kind.BOOKS_TWICE if twin else Kind.ONLY_BOOKS
    return Finding(kind, order.currency, order.amount, twin, order)


def apart(one: str, other: str) -> int:
    return abs((date.fromisoformat(one) - date.fromisoformat(other)).days)


def _nearest(candidates: Sequence[Candidate], amount: int) -> Candidate:
    return min(candidates, key=lambda one: (abs(one.order.amount - amount), one.order.day, one.order.key))
