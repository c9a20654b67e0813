"""A bank with faults, on a virtual clock.

It pays what it accepts, when its script says; it forgets keys after its window, or knows none.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from settlement.payouts.payout import State, Word
from settlement.payouts.port import (
    Accepted,
    Declared,
    Found,
    Hint,
    MalformedEvent,
    NeverSeen,
    NotSendable,
    Refused,
    Unknown,
)

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
NEVER = timedelta(days=10_000)


@dataclass(frozen=True, kw_only=True)
class Script:
    """What the bank does with a payment, and when, counted from its arrival.

    `closed_for`: it cannot be asked for so long from the start. `dark_for`: so long after an arrival its
    answers are lost. `in_progress`: it answers a request with a reason that it has not declared, and pays.
    `events`: when it tells of a change. `wrong`: a fault of its statement.
    """

    name: str
    window: timedelta = timedelta()
    refuses: bool = False
    pays_after: timedelta = timedelta(seconds=1)
    refuses_after: timedelta = NEVER
    returns_after: timedelta = NEVER
    word_of_return: Word = Word.RETURNED
    closed_for: timedelta = timedelta()
    dark_for: timedelta = timedelta()
    in_progress: bool = False
    events: Literal["on time", "twice", "early", "never"] = "on time"
    statement: bool = True
    wrong: Literal["", "half", "second debit", "second return", "return of a refused", "stray"] = ""
    account: Literal["open", "frozen", "closed"] = "open"
    persons: Literal["none", "by truth", "ask first"] = "by truth"


@dataclass
class Payment:
    reference: str
    amount: int
    at: datetime
    script: Script

    @property
    def refused_at(self) -> datetime:
        return self.at + (timedelta() if self.script.refuses else self.script.refuses_after)

    @property
    def paid_at(self) -> datetime:
        is_refused = self.script.refuses or self.script.refuses_after <= self.script.pays_after
        return self.at + (NEVER if is_refused else self.script.pays_after)

    @property
    def returned_at(self) -> datetime:
        return self.paid_at + self.script.returns_after if self.paid_at < self.at + NEVER else self.at + NEVER

    def word(self, now: datetime) -> Word:
        if now >= self.returned_at:
            return self.script.word_of_return
        if now >= self.paid_at:
            return Word.PAID
        return Word.REFUSED if now >= self.refused_at else Word.ACCEPTED


@dataclass(frozen=True)
class BookedLine:
    """A movement of the bank's account: +1 left it, -1 came back. `is_right`: it fits the payout."""

    name: str
    reference: str
    amount: int
    sign: int
    at: datetime
    is_right: bool = True


@dataclass
class SimulatedBank:
    """`now` is the true time."""

    script: Script
    started_at: datetime
    now: Callable[[], datetime]
    declared: Declared = field(init=False)
    payments: list[Payment] = field(default_factory=list)
    answers: dict[str, tuple[datetime, Accepted | Refused]] = field(default_factory=dict)
    bodies: dict[str, set[bytes]] = field(default_factory=dict)
    arrivals: int = 0

    def __post_init__(self) -> None:
        window = int(self.script.window.total_seconds())
        self.declared = Declared(
            name="simulated", window_seconds=window, refusals=frozenset({"account_closed", "failed"})
        )

    # The port

    def request(self, state: State) -> bytes:
        if self.now() < self.started_at + self.script.closed_for:
            raise NotSendable("the bank's circuit is open")
        payout = state.payout
        return json.dumps(
            [payout.reference, payout.amount, payout.currency, state.iban, state.holder]
        ).encode()

    def submit(self, state: State, body: bytes) -> Accepted | Refused | Unknown:
        answer = self.arrive(body)
        if self.script.in_progress:
            return Refused("in_progress")
        return Unknown("timeout") if self._is_dark() else answer

    def find(self, state: State) -> Found | NeverSeen | Unknown:
        if self._is_dark():
            return Unknown("500")
        mine = [one for one in self.payments if one.reference == state.payout.reference]
        if not mine:
            return NeverSeen()
        word = mine[0].word(self.now())
        return Found(word, "failed" if word is Word.REFUSED else "")

    def parse_event(self, event: bytes) -> Hint:
        try:
            return Hint(json.loads(event)["reference"])
        except (ValueError, KeyError, TypeError):
            raise MalformedEvent("no reference") from None

    # The bank itself

    def arrive(self, body: bytes) -> Accepted | Refused:
        """A request arrives: a key that is known replays its answer, every other one is a payment."""
        reference, amount, *_ = json.loads(body)
        self.arrivals += 1
        self.bodies.setdefault(reference, set()).add(body)
        seen_at, answer = self.answers.get(reference, (None, None))
        if seen_at and answer and self.now() < seen_at + self.script.window:
            return answer
        self.payments.append(Payment(reference, amount, self.now(), self.script))
        answer = Refused("account_closed") if self.script.refuses else Accepted()
        self.answers[reference] = (self.now(), answer)
        return answer

    def paid(self) -> int:
        """Payments that have left."""
        return sum(one.paid_at <= self.now() for one in self.payments)

    def net(self) -> int:
        """Minor units that have left, less those that came back."""
        return sum(line.amount * line.sign for line in self.lines())

    def is_pending(self) -> bool:
        return any(self.now() < min(one.paid_at, one.refused_at) for one in self.payments)

    def lines(self) -> list[BookedLine]:
        """The statement up to now."""
        found: list[BookedLine] = []
        for number, one in enumerate(self.payments):
            wrong = self.script.wrong
            amount = one.amount // 2 if wrong == "half" else one.amount
            debit = BookedLine(f"debit-{number}", one.reference, amount, 1, one.paid_at, wrong != "half")
            back = BookedLine(f"return-{number}", one.reference, one.amount, -1, one.returned_at)
            found += [debit, back]
            if wrong == "second debit":
                found.append(
                    BookedLine(f"again-{number}", one.reference, one.amount, 1, one.paid_at + DAY, False)
                )
            if wrong == "second return":
                found.append(
                    BookedLine(f"again-{number}", one.reference, one.amount, -1, one.returned_at + DAY, False)
                )
            if wrong == "stray":  # nobody's, of the same amount
                found.insert(0, BookedLine(f"stray-{number}", "INV-7", one.amount, 1, one.at, False))
            if wrong == "return of a refused":
                at = one.refused_at + DAY
                found.append(BookedLine(f"stray-{number}", one.reference, one.amount, -1, at, False))
        return [line for line in found if line.at <= self.now()]

    def changes(self) -> list[datetime]:
        """When it sends an event about a payment, and when its statement changes."""
        return sorted(
            {
                moment
                for one in self.payments
                for moment in (one.at, one.paid_at, one.refused_at, one.returned_at)
            }
        )

    def _is_dark(self) -> bool:
        return any(one.at <= self.now() < one.at + self.script.dark_for for one in self.payments)
