"""Inject the faults of a life into the writes of a way, and record the events."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.lives.life import FOR_EVER, REVERSALS, Kind, Life, Step

Send = Callable[[], Any]


class Died(BaseException):
    """The process that takes a step dies: nothing in it can catch this."""


class TimedOut(Died):
    """The process is ended because its step takes too long; the write arrives later."""


class Accounts(Protocol):
    """The accounts of one payment."""

    def close(self, who: str) -> None:
        """Close the account of the "payer" or the "payee". Its balance stays on record."""

    def reopen(self, who: str) -> None:
        """Reopen an account with its balance."""


@dataclass
class Storm:
    """The faults of a life, as they happen.

    `lost` and `refused` return the errors of a way's client: for a lost answer, and for a write that the
    database temporarily refuses.
    """

    life: Life
    accounts: Accounts
    lost: Callable[[], Exception]
    refused: Callable[[], Exception]
    told: list[str] = field(default_factory=list)
    tries: Counter[Step] = field(default_factory=Counter)
    _late: list[tuple[Kind, Step, int, Send]] = field(default_factory=list)
    _answered: set[tuple[Step, int]] = field(default_factory=set)
    _closed: set[str] = field(default_factory=set)

    def tell(self, text: str) -> None:
        """Record an event."""
        self.told.append(text)

    def begins(self, step: Step) -> None:
        """Count a try of a step. Some tries close an account."""
        self.tries[step] += 1
        if step is Step.RELEASE and self.tries[step] == self.life.payee_closed_from:
            self._close("payee")
        if step in REVERSALS and self.life.reversal_refused == FOR_EVER and "payer" not in self._closed:
            self._close("payer")

    def fault(self, step: Step) -> Kind | None:
        """Return the fault of this try. Raises the database's refusal of a reversal."""
        number = self.tries[step]
        if step in REVERSALS and number <= self.life.reversal_refused:
            self.tell(f"{step}, try {number}: the database refuses the write")
            raise self.refused()
        kind = self.life.faults.get((step, number))
        self.tell(f"{step}, try {number}: the write {kind or 'is sent'}")
        return kind

    def write(self, step: Step, send: Send) -> Any:
        """Send the write of a step's try, unless a fault happens to it."""
        match kind := self.fault(step):
            case None:
                return send()
            case Kind.LOST:
                send()
                raise self.lost()
            case Kind.DIES_BEFORE:
                raise Died
            case Kind.DIES_AFTER:
                send()
                raise Died
            case Kind.LATE | Kind.LATE_REVERSAL:
                self.later(kind, step, send)
                raise TimedOut

    def later(self, kind: Kind, step: Step, send: Send) -> None:
        """Keep a write that arrives late."""
        self._late.append((kind, step, self.tries[step], send))

    def answered(self, step: Step) -> None:
        """Record a try's success, and send the late writes that wait for it."""
        if (step, self.tries[step]) in self._answered:
            return
        self._answered.add((step, self.tries[step]))
        self.tell(f"{step}, try {self.tries[step]}: succeeds")
        if step in REVERSALS:
            self._reopen_payee()
            self._arrive(lambda kind, of, number: True)
        else:
            self._arrive(
                lambda kind, of, number: kind is Kind.LATE and of is step and number < self.tries[step]
            )

    def over(self) -> None:
        """Send all late writes: the life is over."""
        self._reopen_payee()
        self._arrive(lambda kind, of, number: True)

    def _arrive(self, is_due: Callable[[Kind, Step, int], bool]) -> None:
        due = [late for late in self._late if is_due(*late[:3])]
        self._late = [late for late in self._late if late not in due]
        for _, step, number, send in due:
            try:
                send()
            except Exception as refusal:  # whatever refuses it, nobody waits for the answer
                self.tell(f"{step}, try {number}: the late write arrives, refused: {type(refusal).__name__}")
            else:
                self.tell(f"{step}, try {number}: the late write arrives and commits")

    def _close(self, who: str) -> None:
        self.tell(f"the {who}'s account closes")
        self._closed.add(who)
        self.accounts.close(who)

    def _reopen_payee(self) -> None:
        if "payee" in self._closed:
            self._closed.remove("payee")
            self.tell("the payee's account is open again")
            self.accounts.reopen("payee")
