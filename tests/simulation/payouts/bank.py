"""Simulates a bank with faults, on a virtual clock.

It pays an accepted request when its script says so, and remembers a key only during its window.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from settlement.payouts.payout import State, Word, reference_of
from settlement.payouts.port import (
    Accepted,
    Declared,
    Found,
    NeverSeen,
    NotSendable,
    Refused,
    Unknown,
)

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
NEVER = timedelta(days=10_000)
Wrong = Literal["", "half", "second debit", "second return", "return of a refused", "stray", "recalled"]
NOBODYS = reference_of("payout-of-nobody-0001")


@dataclass(frozen=True, kw_only=True)
class Script:
    """The acts of the bank, of persons and of an adversary in one life of a payout.

    The bank's times count from a payment's arrival. `closed_for`: it answers nothing from the start.
    `dark_for`: its answers after an arrival are lost. `in_progress`: it answers with an undeclared reason,
    but pays. `lies`: it says paid, but pays nothing. `events`: when it announces a change. `wrong`: a fault
    of its statement; "booked by an order": a person has booked the debit. `return_line_after`: the delay of
    a return's line.

    The other times count from the life's start. `opens_after`: the account takes money again.
    `freezes_after`: a person freezes the destination. `alters_after`: an adversary writes another IBAN on the
    payout's row, with the right digest. `restored_after`: the table is as it was after the reservation.
    Persons "from the row" do not phone the bank; "patient" ones contradict it only if it stays silent.
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
    lies: bool = False
    events: Literal["on time", "twice", "early", "never"] = "on time"
    statement: bool = True
    wrong: Wrong | Literal["booked by an order", "no line of the return"] = ""
    return_line_after: timedelta = timedelta()
    account: Literal["open", "frozen", "closed"] = "open"
    opens_after: timedelta = NEVER
    freezes_after: timedelta = NEVER
    alters_after: timedelta = NEVER
    restored_after: timedelta = NEVER
    persons: Literal["none", "by truth", "ask first", "from the row", "patient"] = "by truth"


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
        script = self.script
        is_never = script.refuses or script.refuses_after <= script.pays_after or script.lies
        return self.at + (NEVER if is_never else script.pays_after)

    @property
    def returned_at(self) -> datetime:
        return self.paid_at + self.script.returns_after if self.paid_at < self.at + NEVER else self.at + NEVER

    def word(self, now: datetime) -> Word:
        if now >= self.returned_at:
            return self.script.word_of_return
        if now >= self.paid_at or self.script.lies:
            return Word.PAID
        return Word.REFUSED if now >= self.refused_at else Word.ACCEPTED


@dataclass(frozen=True)
class BookedLine:
    """A line of the bank's statement. `sign`: 1 for money out, -1 for money back.

    `is_right`: it fits the payout. `is_taken`: an order has booked it. `is_recall`: it reverses a return.
    """

    name: str
    reference: str
    amount: int
    sign: int
    at: datetime
    is_right: bool = True
    is_taken: bool = False
    is_recall: bool = False


@dataclass
class SimulatedBank:
    """A bank that follows a script; `now` is the time without clock errors."""

    script: Script
    started_at: datetime
    now: Callable[[], datetime]
    declared: Declared = field(init=False)
    payments: list[Payment] = field(default_factory=list)
    answers: dict[str, tuple[datetime, Accepted | Refused]] = field(default_factory=dict)
    bodies: dict[str, set[bytes]] = field(default_factory=dict)
    paid_to: set[str] = field(default_factory=set)
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
        return self.body(state)

    def body(self, state: State) -> bytes:
        payout = state.payout
        return json.dumps(
            [payout.reference, payout.amount, payout.currency, state.iban, state.holder]
        ).encode()

    def submit(self, state: State, body: bytes) -> Accepted | Refused | Unknown:
        answer = self.arrive(body)
        if self.script.in_progress:
            return Refused("in_progress")
        return Unknown("timeout") if self._is_dark() else answer

    def is_silent(self) -> bool:
        return self._is_dark() or self.now() < self.started_at + self.script.closed_for

    def find(self, state: State) -> Found | NeverSeen | Unknown:
        if self.is_silent():
            return Unknown("500")
        mine = [one for one in self.payments if one.reference == state.payout.reference]
        if not mine:
            return NeverSeen()
        word = mine[0].word(self.now())
        return Found(word, "failed" if word is Word.REFUSED else "")

    # The bank itself

    def arrive(self, body: bytes) -> Accepted | Refused:
        """Take a request: a known key replays its answer, any other becomes a payment."""
        reference, amount, _, iban, _ = json.loads(body)
        self.arrivals += 1
        self.paid_to.add(iban)
        self.bodies.setdefault(reference, set()).add(body)
        seen_at, answer = self.answers.get(reference, (None, None))
        if seen_at and answer and self.now() < seen_at + self.script.window:
            return answer
        self.payments.append(Payment(reference, amount, self.now(), self.script))
        answer = Refused("account_closed") if self.script.refuses else Accepted()
        self.answers[reference] = (self.now(), answer)
        return answer

    def paid(self) -> int:
        return sum(one.paid_at <= self.now() for one in self.payments)

    def net(self) -> int:
        """Minor units that have left, less those that came back."""
        now = self.now()
        return sum(one.amount * ((one.paid_at <= now) - (one.returned_at <= now)) for one in self.payments)

    def is_pending(self) -> bool:
        if self.script.lies:
            return False
        return any(self.now() < min(one.paid_at, one.refused_at) for one in self.payments)

    def lines(self) -> list[BookedLine]:
        found = [line for number, one in enumerate(self.payments) for line in self._lines_of(number, one)]
        return [line for line in found if line.at <= self.now()]

    def _lines_of(self, number: int, one: Payment) -> Iterator[BookedLine]:
        wrong, amount, back_at = self.script.wrong, one.amount, one.returned_at
        if wrong == "stray":  # of the same amount, with the reference of a payout that is not ours
            yield BookedLine(f"stray-{number}", NOBODYS, amount, 1, one.at, False)
        if wrong == "recalled":
            yield BookedLine(f"recall-{number}", one.reference, amount, 1, one.paid_at, False, is_recall=True)
        if wrong == "half":
            yield BookedLine(f"debit-{number}", one.reference, amount // 2, 1, one.paid_at, False)
        else:
            is_taken = wrong == "booked by an order"
            yield BookedLine(f"debit-{number}", one.reference, amount, 1, one.paid_at, is_taken=is_taken)
        if wrong != "no line of the return":
            at = back_at + self.script.return_line_after
            yield BookedLine(f"return-{number}", one.reference, amount, -1, at)
        if wrong == "second debit":
            yield BookedLine(f"again-{number}", one.reference, amount, 1, one.paid_at + DAY, False)
        if wrong == "second return":
            yield BookedLine(f"again-{number}", one.reference, amount, -1, back_at + DAY, False)
        if wrong == "return of a refused":
            yield BookedLine(f"stray-{number}", one.reference, amount, -1, one.refused_at + DAY, False)

    def changes(self) -> list[datetime]:
        """Times at which a payment arrives, leaves, is refused or comes back."""
        return sorted(
            {
                moment
                for one in self.payments
                for moment in (one.at, one.paid_at, one.refused_at, one.returned_at)
            }
        )

    def _is_dark(self) -> bool:
        return any(one.at <= self.now() < one.at + self.script.dark_for for one in self.payments)
