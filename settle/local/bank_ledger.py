"""The simulated bank: its payouts, known keys, accounts and clock.

The clock is ahead of this machine's by the sum of all `advance_seconds`. A new process starts without
payouts.
"""

import heapq
import secrets
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from settle.local import bank_behaviour, bank_control
from settle.local.bank_behaviour import PAYS_AT_ONCE, WIRES, Behaviour, Events, Wire, behaviour_of
from settle.local.bank_control import Change, Settings, StrayLine, Wanted
from settle.local.bank_statements import Account, Line
from settlement.core.model import money
from settlement.payouts.payout import Word

HOUR, RETURN_AFTER = timedelta(hours=1), timedelta(days=3)
_RETURN_REASON = "AC04"
_ADVANCED_MAX = timedelta(days=20_000)


@dataclass(frozen=True)
class Answer:
    status: int
    content: dict[str, Any]
    wire: Wire = Wire.WHOLE


CUT = Answer(0, {}, Wire.CUT)


@dataclass
class Payment:
    """One execution of an order. `amount`: minor units."""

    order: dict[str, Any]
    amount: int
    word: Word = Word.ACCEPTED
    reason: str = ""

    @property
    def reference(self) -> str:
        return str(self.order["reference"])

    def told(self) -> dict[str, str]:
        fields = ("reference", "amount", "currency")
        reason = {"reason": self.reason} if self.reason else {}
        return {**{name: self.order[name] for name in fields}, "status": self.word.value, **reason}


@dataclass(frozen=True)
class Known:
    """A known idempotency key: its first use, its request's bytes, and the answer to a repeat."""

    used_at: datetime
    sent: bytes
    answer: Answer


class Bank:
    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.settings = Settings()
        self.submits = self.finds = 0
        self.accounts: dict[str, Account] = {}
        self._lock = threading.RLock()
        self._run = secrets.token_hex(4).upper()
        self._true_now, self._advanced, self._started_on = now, timedelta(), now().date()
        self._due: list[tuple[datetime, int, Callable[[datetime], object]]] = []
        self._planned = self._lines = self._events = 0
        self._asked: Counter[str] = Counter()
        self._dark_until: dict[str, datetime] = {}
        self._keys: dict[str, Known] = {}
        self._payments: dict[str, list[Payment]] = {}
        self._paid: Counter[str] = Counter()
        self._changed: list[str] = []

    # The contract

    def submit(self, order: dict[str, Any], sent: bytes) -> Answer:
        """Submit an order that follows the contract. Raises ValueError for an invalid amount."""
        amount = bank_control.order_amount(order["amount"], order["currency"])
        with self._lock:
            now = self._catch_up()
            payment, reference = Payment(order, amount), str(order["reference"])
            self._asked[reference] += 1
            is_first = self._asked[reference] == 1
            match behaviour_of(order["creditor"]["name"], self.settings.behaviour):
                case Behaviour.ERROR_HOUR if now < self._dark_until.setdefault(reference, now + HOUR):
                    return _error(500, Behaviour.ERROR_HOUR)
                case Behaviour.LOSE_ANSWER_BEFORE:
                    return CUT
                case Behaviour.LOSE_FIRST_REQUEST if is_first:
                    return CUT
                case Behaviour.ARRIVE_LATE if is_first:
                    late = partial(self._arrive, payment, sent, Behaviour.PAY)
                    self._plan(now + HOUR, late)
                    return CUT
                case behaviour:
                    return self._arrive(payment, sent, behaviour, now)

    def find(self, reference: str) -> Answer:
        with self._lock:
            now = self._catch_up()
            if now < self._dark_until.get(reference, now):
                return _error(500, Behaviour.ERROR_HOUR)
            payments = self._payments.get(reference)
            if not payments:
                return Answer(404, {"reference": reference, "status": Word.NEVER_SEEN.value})
            return Answer(200, payments[0].told())

    def _arrive(self, payment: Payment, sent: bytes, behaviour: Behaviour, now: datetime) -> Answer:
        """Execute an order; for a known key, only return the true answer, even if the first was wrong."""
        known = self._keys.get(payment.reference)
        if known and now < known.used_at + timedelta(seconds=self.settings.window_seconds):
            if known.sent != sent:
                return Answer(409, {"error": "IdempotencyConflict", "message": "the key has other bytes"})
            return known.answer
        self._payments.setdefault(payment.reference, []).append(payment)
        answer = self._execute(payment, behaviour, now)
        self._keys[payment.reference] = Known(now, sent, answer)
        return replace(_spoilt(answer, payment, behaviour), wire=WIRES.get(behaviour, Wire.WHOLE))

    def _execute(self, payment: Payment, behaviour: Behaviour, now: datetime) -> Answer:
        later = now + timedelta(seconds=self.settings.pays_after_seconds)
        if behaviour is Behaviour.REFUSE:
            self._refuse(payment, bank_behaviour.REFUSAL, now)
            return _refusal(payment.reference, payment.reason)
        if behaviour is Behaviour.REFUSE_LATER:
            self._plan(later, partial(self._refuse, payment, bank_behaviour.REFUSED_LATER))
        elif behaviour in PAYS_AT_ONCE:
            self._pay(payment, now)
        else:
            self._plan(later, partial(self._pay, payment))
        if behaviour is Behaviour.RETURN:
            self._plan(later + RETURN_AFTER, partial(self._return, payment))
        return Answer(201, payment.told())

    # What happens to a payment

    def _pay(self, payment: Payment, at: datetime) -> None:
        self._paid[payment.reference] += 1
        self._book(payment.order["currency"], at, amount=-payment.amount, reference=payment.reference)
        self._change(payment, Word.PAID)

    def _return(self, payment: Payment, at: datetime) -> None:
        currency, reference = payment.order["currency"], payment.reference
        self._book(currency, at, amount=payment.amount, reference=reference, returns=_RETURN_REASON)
        self._change(payment, Word.RETURNED)

    def _refuse(self, payment: Payment, reason: str, _at: datetime) -> None:
        payment.reason = reason
        self._change(payment, Word.REFUSED)

    def _change(self, payment: Payment, word: Word) -> None:
        payment.word = word
        if self.settings.events in (Events.ON_TIME, Events.TWICE):
            self._changed.append(payment.reference)

    def events(self) -> list[tuple[str, str]]:
        """Return and clear the unsent events, as (id, reference). With `Events.TWICE`, each twice."""
        with self._lock:
            self._catch_up()
            found = [(self.next_event(), reference) for reference in self._changed]
            self._changed.clear()
            return found * (2 if self.settings.events is Events.TWICE else 1)

    def next_event(self) -> str:
        with self._lock:
            self._events += 1
            return f"evt_{self._run}_{self._events}"

    # The clock

    def _catch_up(self) -> datetime:
        now = self._true_now() + self._advanced
        while self._due and self._due[0][0] <= now:
            at, _, happen = heapq.heappop(self._due)
            happen(at)
        return now

    def _plan(self, at: datetime, happen: Callable[[datetime], object]) -> None:
        self._planned += 1
        heapq.heappush(self._due, (at, self._planned, happen))

    # The account

    def _account(self, currency: str) -> Account:
        if currency not in self.accounts:
            exponent = bank_behaviour.exponents()[currency]
            self.accounts[currency] = Account(
                currency=currency,
                exponent=exponent,
                prefix=f"SIM-{self._run}",
                last_day=self._started_on,
            )
        return self.accounts[currency]

    def _book(self, currency: str, at: datetime, **line: Any) -> str:
        self._lines += 1
        account, name = self._account(currency), f"SIM-{self._run}-{self._lines}"
        account.add(Line(name=name, day=at.date(), **line))
        return name

    # Control

    def change(self, raw: object) -> None:
        """Apply a whole request, or nothing. Raises ValueError with the field's name."""
        with self._lock:
            self._catch_up()
            change = bank_control.parse_change(raw, self.settings)
            self._check(change)
            for currency, opening in change.opening.items():
                self._account(currency).opening = opening
            self.settings = change.settings
            self._advanced += timedelta(seconds=change.advance_seconds)
            self._catch_up()

    def _check(self, change: Change) -> None:
        if self._advanced + timedelta(seconds=change.advance_seconds) > _ADVANCED_MAX:
            raise ValueError(f"advance_seconds: the clock is at most {_ADVANCED_MAX.days} days ahead")
        for currency in change.opening:
            account = self.accounts.get(currency)
            if account and (account.lines or account.files):
                raise ValueError(f"opening: {currency} has lines or a statement already")

    def add_line(self, line: StrayLine) -> str:
        """Book a line without an order; return its bank reference."""
        with self._lock:
            now = self._catch_up()
            content = {name: value for name, value in vars(line).items() if name != "currency"}
            return self._book(line.currency, now, **content)

    def statement(self, wanted: Wanted) -> bytes:
        """Return a new statement file, or an earlier one.

        Raises ValueError for a day after today or before the last statement, or an unknown number.
        """
        with self._lock:
            now, account = self._catch_up(), self._account(wanted.currency)
            if wanted.number is not None:
                if wanted.number > len(account.files):
                    raise ValueError(f"number: {len(account.files)} statements are written")
                return account.files[wanted.number - 1]
            day = wanted.day or now.date()
            if not account.last_day <= day <= now.date():
                raise ValueError(f"day: must be from {account.last_day} to {now.date()}")
            return account.write(day, now)

    def describe(self) -> dict[str, Any]:
        with self._lock:
            now, settings = self._catch_up(), self.settings
            shown = ("behaviour", "window_seconds", "pays_after_seconds", "events")
            return {
                **{name: getattr(settings, name) for name in shown},
                "clock": now.isoformat(timespec="seconds"),
                "submits": self.submits,
                "finds": self.finds,
                "references": len(self._asked),
                "paid": dict(self._paid),
                "paid_twice": sum(times > 1 for times in self._paid.values()),
                "closing": {
                    currency: money.render(account.closing, account.exponent)
                    for currency, account in self.accounts.items()
                },
                "statements": {currency: len(account.files) for currency, account in self.accounts.items()},
            }

    def count(self, *, submits: int = 0, finds: int = 0) -> None:
        with self._lock:
            self.submits += submits
            self.finds += finds


def _spoilt(answer: Answer, payment: Payment, behaviour: Behaviour) -> Answer:
    match behaviour:
        case Behaviour.FORGET_KEY:
            return _error(500, behaviour)
        case Behaviour.IN_PROGRESS:
            return _error(409, behaviour)
        case Behaviour.REFUSE_UNDECLARED:
            return _refusal(payment.reference, bank_behaviour.UNDECLARED)
        case Behaviour.OTHER_AMOUNT:
            exponent = bank_behaviour.exponents()[payment.order["currency"]]
            return replace(
                answer, content=answer.content | {"amount": money.render(payment.amount + 1, exponent)}
            )
        case _:
            return answer


def _error(status: int, behaviour: Behaviour) -> Answer:
    return Answer(status, {"error": "Asked", "message": f"it was told to {behaviour}"})


def _refusal(reference: str, reason: str) -> Answer:
    return Answer(422, {"reference": reference, "reason": reason})
