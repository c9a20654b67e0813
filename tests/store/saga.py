"""A settlement on a fresh table, as the tests of the store drive it: step by step, no handler involved."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from settlement import items, kyc, rows, steps
from settlement.errors import SettlementError
from settlement.request import Settlement
from settlement.rows import Row
from settlement.status import Status, Step
from settlement.terms import Terms
from settlement.writes import Posting
from tests.conftest import NOW, Ledger

KEY = "order-2026-000101"
HASH = "d13463c1e640ed9114f62760da3142c9e498ad261d55a5451e18c3ede91227a2"
CAP = 100_000_000
"""The highest balance in EUR of the tests' stage, in minor units."""

POSTED_AT = "2026-11-20T12:00:00.123Z"
DEADLINE = NOW + timedelta(minutes=15)
LATER = NOW + timedelta(seconds=7)

ALICE = {"pk": "ACCOUNT#alice", "sk": "BALANCE", "available": 10_000, "currency": "EUR"}
BOB = {"pk": "ACCOUNT#bob", "sk": "BALANCE", "available": 500, "currency": "EUR"}
IN_FLIGHT = {"gsi1pk": "IN_FLIGHT#2", "gsi1sk": "2026-11-20T12:00:30.123Z"}
FINISHED = {
    "pk": f"SETTLEMENT#{KEY}",
    "sk": "SETTLEMENT",
    "status": "SETTLED",
    "escrow": 0,
    "payer": "alice",
    "payee": "bob",
    "amount": 4820,
    "fee": 48,
    "currency": "EUR",
    "request_hash": HASH,
    "owner": "execution-1",
    "claimed_at": POSTED_AT,
    "deadline_at": "2026-11-20T12:15:00.123Z",
    "recoveries": 0,
}
"""What a settlement's row says of a finished settlement, less its steps, its end and its failure."""

CLAIMED = FINISHED | IN_FLIGHT | {"status": "PROCESSING"}

ENTRIES: dict[Step, Row] = {
    Step.HOLD: {
        "debit": "alice",
        "credit": f"escrow:{KEY}",
        "side": "debit",
        "amount": 4820,
        "currency": "EUR",
        "gsi1pk": "ACCOUNT#alice",
        "gsi1sk": f"{POSTED_AT}#{KEY}:hold",
    },
    Step.VERIFY: {
        "decision": "APPROVED",
        "reference": f"{KEY}:verify",
        "reason": "approved without asking: no KYC provider is connected",
        "provider": "placeholder",
    },
    Step.RELEASE: {
        "debit": f"escrow:{KEY}",
        "credit": "bob",
        "side": "credit",
        "amount": 4772,
        "currency": "EUR",
        "gsi1pk": "ACCOUNT#bob",
        "gsi1sk": f"{POSTED_AT}#{KEY}:release",
    },
    Step.FEE: {
        "debit": f"escrow:{KEY}",
        "credit": "fees:EUR",
        "side": "credit",
        "amount": 48,
        "currency": "EUR",
        "gsi1pk": "ACCOUNT#fees:EUR#2",
        "gsi1sk": f"{POSTED_AT}#{KEY}:fee",
    },
}
ENTRIES = {
    step: {
        "pk": f"SETTLEMENT#{KEY}",
        "sk": f"{KEY}:{step}",
        "step": step.value,
        "posted_at": POSTED_AT,
        "request_hash": HASH,
        **content,
    }
    for step, content in ENTRIES.items()
}
OTHER_STATUSES = [status for status in Status if status is not Status.PROCESSING]


@dataclass(frozen=True)
class Saga:
    """One settlement in one table. Every call happens at `NOW` unless it names another instant."""

    ledger: Ledger
    settlement: Settlement
    terms: Terms

    def claim(self, now: datetime = NOW, owner: str = "execution-1") -> Row:
        return self.ledger.store.claim(items.claim(self.settlement, owner, now, self.terms))

    def post(self, step: Step, now: datetime = NOW) -> Row:
        return self.ledger.store.post(posting(step, self.settlement, self.terms, now))

    def reject(self, failure: dict[str, str], now: datetime = NOW) -> Row:
        return self.ledger.store.update(items.reject(self.settlement, failure, now))

    def start(self, payer: int = 10_000, payee: int = 500) -> None:
        """Open both accounts with these balances and claim the key."""
        self.ledger.open(self.settlement.payer, payer, self.settlement.currency)
        self.ledger.open(self.settlement.payee, payee, self.settlement.currency)
        self.claim()

    def before(self, step: Step) -> None:
        """Start, and commit each step in front of `step`."""
        self.start()
        for earlier in list(Step)[: list(Step).index(step)]:
            self.post(earlier)

    def after(self, step: Step) -> Row:
        """Start, commit every step up to and with `step`; return its entry."""
        self.before(step)
        return self.post(step)

    def row(self) -> Row:
        found = self.ledger.row(rows.settlement_key(self.settlement.key))
        assert found is not None
        return found

    def alter(self, **attributes: Any) -> None:
        """Overwrite attributes of the settlement's row, past every condition."""
        self.ledger.put(self.row() | attributes)

    def asking(self, **changes: Any) -> "Saga":
        """The same table and key, asked for other content."""
        return replace(self, settlement=replace(self.settlement, **changes))

    @contextmanager
    def writes_nothing(self) -> Iterator[None]:
        """Demand that the table is the same, row by row, before and after."""
        before = self.ledger.rows()
        yield
        assert self.ledger.rows() == before


def posting(step: Step, settlement: Settlement, terms: Terms, now: datetime = NOW) -> Posting:
    """The transaction of a step, as its handler makes it."""
    if step is Step.HOLD:
        return steps.hold(settlement, now)
    if step is Step.VERIFY:
        return steps.verify(settlement, kyc.decide(settlement), now)
    if step is Step.RELEASE:
        return steps.release(settlement, terms, now)
    return steps.fee(settlement, now)


def outcome_of(call: Any) -> Any:
    """What a call returns, or the refusal that it raises."""
    try:
        return call()
    except SettlementError as refusal:
        return refusal


def assert_conserved(found: Iterable[Row]) -> None:
    """Every balance and every escrow is the sum of its entries, said without the code under test."""
    found = list(found)
    held = {row["pk"].removeprefix("ACCOUNT#"): row["available"] for row in found if row["sk"] == "BALANCE"}
    held |= {f"escrow:{row['pk'][11:]}": row["escrow"] for row in found if row["sk"] == "SETTLEMENT"}
    posted = dict.fromkeys(held, 0)
    for entry in found:
        if "debit" in entry:
            for account, change in ((entry["debit"], -entry["amount"]), (entry["credit"], entry["amount"])):
                posted[account] = posted.get(account, 0) + change
    assert {account: posted[account] for account in held} == held
    assert all(balance >= 0 for balance in held.values())
