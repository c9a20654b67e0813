"""A bank's lines and statements, in any format.

Amounts are in minor units of the account's currency. Dates are the bank's own days, as 2026-11-27.
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum

REFERENCE_MAX = 140
"""Characters of a reference: a free text of ISO 20022 has no more."""


class Side(StrEnum):
    """The line's effect on the bank's account."""

    IN = "in"
    OUT = "out"

    @property
    def other(self) -> "Side":
        return Side.OUT if self is Side.IN else Side.IN


class UnreadableStatement(ValueError):
    """A file that is not a statement, or cannot be read whole. The message names line and element."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One booked movement.

    `side`: the effect, even of a reversal. `bank_reference`: the bank's own name of the line, or empty.
    `references`: all names, each once: the end-to-end id, the creditor's reference, the free text and the
    text's words. `returns`: the reason of a return or reversal, else empty. `part`: the number within a
    batch, else 0. `at`: the line in the file.
    """

    account: str
    currency: str
    amount: int
    side: Side
    booked: str
    valued: str
    bank_reference: str
    references: tuple[str, ...]
    returns: str
    statement: str
    position: int
    part: int
    at: int

    @property
    def identity(self) -> str:
        """SHA-256 of the bank's identity of a line.

        It has the bank's reference, or else the line's place in the statement, and the day of booking,
        because references are reused.
        """
        place = self.bank_reference or f"{self.statement} {self.position}"
        text = "\n".join((self.account, self.currency, self.booked, place, str(self.part)))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """An account's statement in a file, without its lines.

    `number`: the bank's own sequence number, or None. `page`: number, and whether it is the last page; None
    for a single page. `opening` and `closing`: signed balances, or None, as in a camt.054. `first` and
    `last`: the statement's days, else the days of balances or lines. `credits` and `debits`: the lines' sums.
    """

    account: str
    currency: str
    name: str
    created: str
    number: int | None
    page: tuple[int, bool] | None
    first: str
    last: str
    opening: int | None
    closing: int | None
    lines: int
    credits: int
    debits: int
