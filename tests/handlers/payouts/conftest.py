"""The payout functions on a table that signs its rows, with a bank that the test scripts."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from inspect import unwrap
from typing import Any

import pytest

from handlers import _dependencies
from handlers.payouts import _bank, _payouts
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.payouts.payout import Payout, State, Word, reference_of
from settlement.payouts.port import Accepted, Declared, Found, NeverSeen, Refused, Unknown
from tests.handlers.conftest import Calls
from tests.world.functions import Context
from tests.world.ledger import signing
from tests.world.orders import PROOF, answered, request
from tests.world.services import Caller, signed

KEY = "payout-2026-000101"
REFERENCE = reference_of(KEY)
IBAN, HOLDER = "DE89370400440532013000", "Canary Holder"
WIRE = {
    "key": KEY,
    "account": "alice",
    "amount": "48.20",
    "currency": "EUR",
    "destination": "landlord",
}
PAYOUT = Payout(key=KEY, account="alice", amount=48_20, currency="EUR", destination="landlord")
ADA = "arn:aws:iam::123456789012:user/finance/ada"
BEA = "arn:aws:sts::123456789012:assumed-role/Approver/bea"
CONFIRM = {"id": "landlord", "account": "alice", "iban": IBAN, "holder": HOLDER}
PAYEE = {**CONFIRM, "reason": "the rent"}
DECLARED = Declared(name="a-bank", window_seconds=86_400, refusals=frozenset({"account_closed"}))


def numbered(number: int) -> str:
    return f"payout-2026-{number:06}"


@dataclass
class Bank:
    """A bank whose answers a test sets. For `poisoned` payouts, it raises an error that adapters must not."""

    answer: Accepted | Refused | Unknown = field(default_factory=Accepted)
    found: Found | NeverSeen | Unknown = field(default_factory=lambda: Found(Word.ACCEPTED))
    poisoned: set[str] = field(default_factory=set)
    sent: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    declared: Declared = DECLARED

    def request(self, state: State) -> bytes:
        if state.key in self.poisoned:
            raise TypeError(f"canary: {state.iban}")
        return state.key.encode()

    def submit(self, state: State, body: bytes) -> Accepted | Refused | Unknown:
        self.sent.append(state.key)
        return self.answer

    def find(self, state: State) -> Found | NeverSeen | Unknown:
        self.asked.append(state.key)
        return self.found


@dataclass(frozen=True, kw_only=True)
class Desk:
    """The payout functions, and the orders of persons."""

    calls: Calls
    bank: Bank

    def reserve(self, **changed: Any) -> dict[str, str]:
        answer: dict[str, str] = self.calls.handlers["ReservePayout"]({"payout": WIRE | changed}, Context())
        return answer

    def post(self, body: Any = WIRE) -> tuple[int, dict[str, Any]]:
        event = {"routeKey": "POST /payouts", "body": body if isinstance(body, str) else json.dumps(body)}
        return self.served(event)

    def get(self, key: Any = KEY) -> tuple[int, dict[str, Any]]:
        return self.served({"routeKey": "GET /payouts/{key}", "pathParameters": {"key": key}})

    def served(self, event: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        answer = self.calls.handlers["ServePayouts"](event, Context())
        return answer["statusCode"], json.loads(answer["body"])

    def look(self, key: Any = KEY) -> dict[str, Any]:
        answer: dict[str, Any] = self.calls.handlers["FollowPayouts"]({"key": key}, Context())
        return answer

    def run(self, left_ms: Iterator[int] | None = None) -> dict[str, int]:
        answer: dict[str, int] = self.calls.handlers["FollowPayouts"]({}, Context(left_ms))
        return answer

    def hear(self, body: Any, caller: Caller = signed, **more: Any) -> tuple[int, dict[str, str]]:
        event = caller(body if isinstance(body, str) else json.dumps(body), **more)
        answer = self.calls.handlers["BankEvents"](event, Context())
        return answer["statusCode"], json.loads(answer["body"])

    def order(self, route: str, body: Any, by: str = ADA, **proof: str) -> dict[str, Any]:
        event = request(route, body, by, **PROOF | proof)
        return answered(self.calls.handlers["TakeOrder"](event, Context()))

    def payable(self, name: str = "landlord") -> None:
        """Let two persons add and confirm a payee, two days ago."""
        self.calls.later(days=-2)
        self.order("add-payee", PAYEE | {"id": name})
        self.order("confirm-payee", CONFIRM | {"id": name}, BEA)
        self.calls.later(days=0)

    def many(self, count: int) -> list[str]:
        for number in range(count):
            self.reserve(key=numbered(number), amount="0.01")
        return [numbered(number) for number in range(count)]

    def moved(self) -> dict[str, int]:
        sums = Counter[str]()
        for row in self.calls.ledger.rows():
            if str(row.get("step")).startswith("payout-"):
                sums[row["debit"]] -= row["amount"]
                sums[row["credit"]] += row["amount"]
        return {account: amount for account, amount in sums.items() if amount}

    def state(self, key: str = KEY) -> State:
        return State.from_row(self.row(key))

    def row(self, key: str = KEY) -> Row:
        found = self.calls.ledger.row(keys.payout(key))
        assert found is not None
        return found

    def alter(self, key: str = KEY, **attributes: Any) -> None:
        """Overwrite attributes of the row, bypassing all conditions."""
        self.calls.ledger.put(self.row(key) | attributes)

    def shown(self, **more: Any) -> dict[str, Any]:
        """Return a decision that repeats the open case's shown values."""
        state = self.state()
        told = {"key": KEY, "case": state.cases, "digest": state.digest, "reason": "a call to the bank"}
        return told | {"verdict": "not-paid"} | more

    def case(self) -> None:
        """Open a case: the bank leaves a payout unanswered for days, then says that it never got it."""
        self.reserve()
        self.bank.answer = self.bank.found = Unknown("500")
        self.look()
        self.calls.later(days=4)
        assert self.look()["status"] == "LIMBO"
        self.bank.found = NeverSeen()

    def decided(self, verdict: str = "not-paid") -> None:
        self.order("propose-payout", self.shown(verdict=verdict))
        self.order("approve-payout", self.shown(verdict=verdict), BEA)


@pytest.fixture
def empty(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A funded customer without a payee. Each Lambda invocation reaches FollowPayouts."""
    bank = Bank()
    monkeypatch.setattr(_dependencies, "store", signing(calls.ledger).store)
    monkeypatch.setattr(_dependencies, "dynamodb", calls.ledger.client)
    monkeypatch.setenv("TABLE_NAME", calls.ledger.table_name)
    vars(_bank._own).clear()
    monkeypatch.setattr(_bank, "bank", lambda: bank)
    calls.ledger.open("alice", 100_00)
    follow = unwrap(
        calls.handlers["FollowPayouts"]
    )  # within another function's call: one process, one log line
    calls.functions.answers = lambda event: follow(event, Context())
    _payouts.config.cache_clear()
    return Desk(calls=calls, bank=bank)


@pytest.fixture
def desk(empty: Desk) -> Iterator[Desk]:
    """A funded customer with a payee."""
    empty.payable()
    empty.calls.counted()
    yield empty
    _payouts.config.cache_clear()


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str | None], None]]:
    def change(settings: str | None) -> None:
        _payouts.config.cache_clear()
        if settings is None:
            monkeypatch.delenv("PAYOUTS")
        else:
            monkeypatch.setenv("PAYOUTS", settings)

    yield change
    _payouts.config.cache_clear()
