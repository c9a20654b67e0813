"""Plays short simulated histories, called lives, of a check.

A seed decides a life's payments, faults, restarts and callbacks. A life calls the real file through
VerifyKyc's code. A client inside the file reaches its real service.
"""

import contextlib
import datetime as datetime_module
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any

from settlement.checks import answers, file, together
from settlement.checks.check import Check, Payment, Reply, token_of
from settlement.core.model.errors import CheckUnavailable, InvalidRequest

BEGINNING = datetime(2026, 11, 20, 12, tzinfo=UTC)
SECONDS_MAX = 3.0
"""Longest time for a check's answer, as in VerifyKyc."""

ACTIONS = 12
PAYMENTS_MAX = 3
_NAMES = ("alice", "bob", "mallory", "Eve", "Zoë Ångström", "")
_AMOUNTS = (1, 99, 4_820, 99_999, 100_000, 100_001, 10**12)

Simulated = Callable[..., Reply]
"""The check's simulation of its service: `SIMULATED(method, url, headers, body)`."""

Decision = tuple[str, str]


@dataclass(frozen=True)
class Broken:
    """A promise that the check broke. The same seed breaks it again."""

    seed: int
    promise: str
    detail: str


class Died(BaseException):
    """Simulates that the function ends during the check."""


@dataclass
class Outside:
    """A check's tools. They fail at random while `faults` is set."""

    chance: Random
    now_: datetime
    simulated: Simulated | None
    faults: bool = True
    failed: bool = False

    def now(self) -> datetime:
        self._fail((Died,))
        return self.now_

    def http(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Reply:
        self._fail((Died, OSError, TimeoutError))
        if self.faults and self.chance.random() < 0.2:
            self.failed = True
            return Reply(self.chance.choice((429, 500, 503)), b"busy")
        if self.simulated is None:
            raise OSError("the file has no SIMULATED, which would answer this request")
        reply = self.simulated(method, url, dict(headers or {}), body)
        self._fail((Died, TimeoutError))  # the service took the request, but its answer is lost
        return reply

    def secret(self, name: str) -> str:
        self._fail((Died, OSError))
        return f"simulated-{name}"

    def _fail(self, kinds: tuple[type[BaseException], ...]) -> None:
        if self.faults and self.chance.random() < 0.2:
            self.failed = True
            raise self.chance.choice(kinds)("simulated")


@dataclass
class Life:
    seed: int
    path: Path
    found: list[Broken] = field(default_factory=list)
    decided: dict[str, Decision] = field(default_factory=dict)
    waited: bool = False
    called_back: set[str] = field(default_factory=set)
    """Reasons given in callbacks."""

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)  # noqa: S311
        self.now = BEGINNING + timedelta(seconds=self.chance.randrange(28 * 86_400))
        self.payments = [self._payment(number) for number in range(self.chance.randint(1, PAYMENTS_MAX))]
        self._start()

    def play(self) -> "Life":
        acts = (self._ask, self._ask, self._ask_twice, self._start, self._wait, self._call_back)
        for _ in range(ACTIONS):
            self.chance.choice(acts)()
        for restart in (False, True):
            if restart:
                self._start()
            self.now += timedelta(days=self.chance.randint(0, 40))
            for payment in self.payments:
                self._asked(payment, faults=False)
        return self

    def _start(self) -> None:
        self.check = file.load(self.path)
        _take_the_clock(_module(self.path))
        self.simulated: Simulated | None = getattr(_module(self.path), "SIMULATED", None)

    def _wait(self) -> None:
        self.now += timedelta(seconds=self.chance.choice((1, 60, 3_600, 86_400, 30 * 86_400)))

    def _ask(self) -> None:
        self._asked(self.chance.choice(self.payments), faults=True)

    def _ask_twice(self) -> None:
        payment = self.chance.choice(self.payments)
        calls = {f"{self.check.name} {number}": self._call(payment, faults=True) for number in (1, 2)}
        given = together.ask({name: call for name, (call, _) in calls.items()}, SECONDS_MAX)
        for name, answer in given.items():
            self._judge(payment, answer, calls[name][1])

    def _asked(self, payment: Payment, *, faults: bool) -> None:
        call, outside = self._call(payment, faults=faults)
        self._judge(payment, together.ask({self.check.name: call}, SECONDS_MAX)[self.check.name], outside)

    def _call(self, payment: Payment, *, faults: bool) -> tuple[Callable[[], Any], Outside]:
        chance = Random(self.chance.random())  # noqa: S311
        outside = Outside(chance, self.now, self.simulated, faults=faults)
        check, token = self.check, token_of(payment.key, self.check.name)
        return lambda: check.ask(payment, token, outside), outside

    def _judge(self, payment: Payment, answer: object, outside: Outside) -> None:
        if isinstance(answer, together.TooLate):
            self._broken("answers before its deadline", f"{answer} ({SECONDS_MAX:.0f} s)")
            return
        if isinstance(answer, BaseException):
            if not outside.failed:
                said = f"{type(answer).__name__}: {answer}"
                self._broken("raises only if something outside fails", said)
            return
        try:
            content = answers.content_of(self.check, answer, "ask")
        except CheckUnavailable as fault:
            self._broken("answers as it declares", str(fault))
            return
        self._decide(payment, content)

    def _decide(self, payment: Payment, content: dict[str, str] | None) -> None:
        """Record the first answer. A later answer must be the same, even if the first was lost."""
        said = (content["decision"], content["reason"]) if content else ("WAITS", "")
        before = self.decided.get(payment.key)
        if before and said != before:
            self._broken(
                "gives the same answer for the same token", f"first {_text(before)}, then {_text(said)}"
            )
        elif content:
            self.decided[payment.key] = said
        else:
            self.waited = True

    def _call_back(self) -> None:
        if not self.check.wait_seconds:
            return
        payment = self.chance.choice(self.payments)
        right = {"token": token_of(payment.key, self.check.name), "decision": "approve", "evidence": {}}
        refusals: list[dict[str, Any]] = [
            right | {"decision": "refuse", "reason": reason} for reason in self.check.refusals
        ]
        wrong = [
            right | {"token": token_of(payment.key, f"{self.check.name}x")[:200]},
            right | {"decision": "refuse", "reason": "undeclared_by_any_check"},
            right | {"evidence": {"x": "y" * answers.EVIDENCE_BYTES_MAX}},
        ]
        for body in (right, *refusals):
            key, _ = answers.parse_callback(json.loads(json.dumps(body)), self.check)
            self.called_back.add(str(body.get("reason", "")))
            if key != payment.key:
                self._broken("is called back about its own payment", f"{key} instead of {payment.key}")
        for body in wrong:
            with contextlib.suppress(InvalidRequest):
                answers.parse_callback(body, self.check)
                self._broken("refuses a wrong callback", json.dumps(body)[:200])

    def _payment(self, number: int) -> Payment:
        choose = self.chance.choice
        return Payment(
            key=f"proof-order-{self.seed:06}-{number}",
            payer=choose(("alice", "bob", "carol", "mallory")),
            payee=choose(("shop", "emil", "eve")),
            amount=choose(_AMOUNTS),
            currency=choose(("EUR", "USD", "JPY")),
            fee=0,
            payer_name=choose((None, *_NAMES)),
            payee_name=choose((None, *_NAMES)),
            reference=choose((None, "parcel 1")),
            metadata=choose(({}, {"cart": "7"})),
        )

    def _broken(self, promise: str, detail: str) -> None:
        self.found.append(Broken(self.seed, promise, detail))


@dataclass(frozen=True)
class Proof:
    """The result of all lives. `found` has the first broken promise of each kind."""

    check: Check
    seeds: int
    approved: int
    refused: dict[str, int]
    waited: int
    called_back: set[str]
    found: list[Broken]

    @property
    def unseen(self) -> list[str]:
        met = self.refused.keys() | self.called_back
        never = [f"refusal {reason}" for reason in self.check.refusals if reason not in met]
        return [*never, *(["wait"] if self.check.wait_seconds and not self.waited else [])]


def prove(path: Path, seeds: int, first: int = 0) -> Proof:
    """Play `seeds` lives from seed `first`. Raises ValueError for a file without a check."""
    check = file.load(path)
    found, refused, called_back = dict[str, Broken](), dict[str, int](), set[str]()
    approved = waited = 0
    for seed in range(first, first + seeds):
        life = Life(seed, path).play()
        waited += life.waited
        called_back |= life.called_back
        for decision, reason in life.decided.values():
            approved += decision == answers.APPROVED
            if decision == answers.REFUSED:
                refused[reason] = refused.get(reason, 0) + 1
        for broken in life.found:
            found.setdefault(broken.promise, broken)
        if "answers before its deadline" in found:
            break  # each further life would take seconds
    return Proof(check, seed - first + 1, approved, refused, waited, called_back, [*found.values()])


def _module(path: Path) -> Any:
    return sys.modules[f"check_{path.stem}"]


def _no_time(*_: Any, **__: Any) -> Any:
    raise RuntimeError("the time must come from tools.now()")


class _NoNow(datetime):
    """Replaces `datetime` in a check's module. An answer may depend only on `tools.now()`."""

    now = utcnow = today = classmethod(_no_time)


class _NoToday(date):
    """Replaces `date` in a check's module: `today()` raises, as it reads a clock."""

    today = classmethod(_no_time)


_CLOCKS = ("time", "time_ns", "gmtime", "localtime", "ctime", "asctime")
_WITHOUT = {
    id(datetime): _NoNow,
    id(date): _NoToday,
    id(datetime_module): SimpleNamespace(**vars(datetime_module) | {"datetime": _NoNow, "date": _NoToday}),
    id(time): SimpleNamespace(**vars(time) | dict.fromkeys(_CLOCKS, _no_time)),
    **{id(getattr(time, name)): _no_time for name in _CLOCKS},
}


def _take_the_clock(module: ModuleType) -> None:
    for name, value in list(vars(module).items()):
        if id(value) in _WITHOUT:
            setattr(module, name, _WITHOUT[id(value)])


def _text(said: Decision) -> str:
    return " ".join(filter(None, said)).lower()
