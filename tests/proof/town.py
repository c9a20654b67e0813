"""A town: a table with one or two settlements, made by the store's own transactions."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from settlement.core.ledger import entries, forward, keys, kyc_review, limbo, reversal
from settlement.core.ledger.keys import Row
from settlement.core.ledger.kyc_review import WebhookEvent
from settlement.core.model import accounts
from settlement.core.model.orders import Decision, Resolution, Reversal
from settlement.core.model.settlement import NAMES, Settlement, hash_of
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status, Step
from settlement.core.model.timestamps import timestamp
from settlement.core.model.verdict import KycDecision
from settlement.core.policy import compensation, recovery, steps
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import to_wire
from settlement.http.caller import Caller
from settlement.http.circuit import Thresholds
from settlement.http.shared_circuit import Lease, SharedCircuit
from settlement.kyc.circuit import CIRCUIT
from settlement.orders import approval, partial_reversal, proposals
from settlement.orders.proposal import Move, Proposal
from settlement.orders.requests import PartialReversal
from settlement.proof.settlement_row import NAMES_ERASED
from settlement.signing.signature import RowKeys
from tests.proof.client import readable
from tests.world.constants import NONCE
from tests.world.environment import NOW
from tests.world.memory_dynamodb import Key, MemoryDynamoDb
from tests.world.provider import APPROVED, IN_REVIEW

CONFIG = StageConfig(
    currencies={"EUR": 2, "JPY": 0},
    highest_balances={},
    fee_basis_points=100,
    deadline_seconds=900,
    recover_after_seconds=30,
)
FAILURE = {"step": "verify", "error": "KycUnavailable", "cause": "no answer"}
LACKS_FUNDS = {"step": "hold", "error": "InsufficientFunds", "cause": "payer: too little"}
STUCK = {"error": "InsufficientFunds", "cause": "payee: has spent it"}


@dataclass
class Town:
    table: MemoryDynamoDb = field(default_factory=MemoryDynamoDb)
    now: datetime = NOW
    row_keys: RowKeys | None = None
    retention_days: int | None = None

    def __post_init__(self) -> None:
        self.store: Store = readable(self.table, row_keys=self.row_keys, retention_days=self.retention_days)

    def tick(self, seconds: float = 1.137) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now

    def open(self, account: str, deposit: int, currency: str = "EUR") -> None:
        at = timestamp(self.tick())
        name = account.replace(".", "-")
        first = order(f"open-of-{name}-000000", "open", account, at, currency)
        row = {**keys.account(account), "available": 0, "currency": currency, "opened_at": at}
        self.put(row | {"last_order": keys.subject(first)[1]})
        self.put(first)
        if deposit:
            self.deposit(f"deposit-of-{name}-0000", account, deposit, currency)

    def deposit(self, key: str, account: str, amount: int, currency: str = "EUR", at: str = "") -> None:
        self._move(key, "deposit", account, amount, currency, at or timestamp(self.tick()))

    def withdraw(self, key: str, account: str, amount: int, currency: str = "EUR") -> None:
        self._move(key, "withdraw", account, amount, currency, timestamp(self.tick()))

    def state(self, kind: str, key: str, account: str) -> None:
        at = timestamp(self.tick())
        row = self.row(keys.account(account))
        row.pop("frozen_at", None)
        times = {"freeze": {"frozen_at": at}, "close": {"closed_at": at}}.get(kind, {})
        self.put(row | times | {"last_order": key})
        self.put(order(key, kind, account, at))

    def _move(self, key: str, kind: str, account: str, amount: int, currency: str, at: str) -> None:
        row = self.row(keys.account(account))
        change = amount if kind == "deposit" else -amount
        self.put(row | {"available": row["available"] + change})
        recorded = order(key, kind, account, at, currency, amount)
        self.put(recorded)
        entry = external(key, kind, account, amount, currency, at)
        self.put(entry | {"request_hash": recorded["request_hash"]})

    def put(self, row: Row) -> None:
        """Put a row, bypassing all conditions."""
        self.table.put_item(
            TableName="in-memory", Item=to_wire(self.row_keys.signed(row) if self.row_keys else row)
        )

    def rows(self) -> dict[Key, dict[str, Any]]:
        return {key: dict(item) for key, item in self.table.items.items()}

    def row(self, key: Row) -> Row:
        found = self.store.read(key)
        assert found
        return found

    def circuit(self) -> None:
        now = int(self.tick().timestamp())
        shared = SharedCircuit(
            CIRCUIT, self.table, "in-memory", Thresholds(**_THRESHOLDS), lambda state: None, lambda: now
        )
        for name in ("one", "two"):
            shared.failed(Lease(name))


def order(
    key: str, kind: str, account: str, at: str, currency: str | None = None, amount: int | None = None
) -> Row:
    content: Row = {"key": key, "order": kind, "account": account, "by": "olga", "reason": f"for {account}"}
    content |= {"currency": currency} if currency else {}
    content |= {"amount": amount, "reference": f"bank-{key}"} if amount else {}
    row = {**keys.order(key), **content, "posted_at": at, "request_hash": hash_of(content)}
    row |= keys.orders_index(at)
    del row["key"]
    return row


def external(key: str, step: str, account: str, amount: int, currency: str, at: str) -> Row:
    debit, credit = accounts.external(currency), account
    if step == "withdraw":
        debit, credit = credit, debit
    return {
        **keys.entry(account, at, key, step),
        "step": step,
        "posted_at": at,
        "debit": debit,
        "credit": credit,
        "side": "credit" if credit == account else "debit",
        "amount": amount,
        "currency": currency,
    }


_THRESHOLDS = {"failures": 2, "within_seconds": 60, "recovery_seconds": 30}


Play = Callable[["Payment"], object]


@dataclass
class Payment:
    """A town's settlement; each method is one transaction."""

    town: Town
    settlement: Settlement

    @property
    def owner(self) -> str:
        return f"{self.settlement.key}-1"

    @property
    def store(self) -> Store:
        return self.town.store

    def tick(self, seconds: float = 1.137) -> datetime:
        return self.town.tick(seconds)

    def state(self) -> SettlementState:
        state = self.store.settlement(self.settlement.key)
        assert state
        return state

    def claim(self) -> None:
        self.store.claim(forward.claim(self.settlement, self.owner, self.tick(), CONFIG))

    def hold(self) -> None:
        self.store.commit(steps.hold(self.settlement, self.tick()))

    def claim_and_hold(self) -> None:
        transaction = steps.claim_and_hold(self.settlement, self.owner, self.tick(), CONFIG)
        self.store.transact(transaction.writes)

    def verify(self, decision: KycDecision = KycDecision.APPROVED) -> None:
        verdict = replace(APPROVED, decision=decision, reference=f"ver_{self.settlement.key}")
        self.store.put(entries.evidence(self.settlement, Step.VERIFY, verdict.evidence(), self.tick()))
        self.store.update(kyc_review.record_verdict(self.settlement, verdict, self.tick()))

    def review(self) -> None:
        verdict = replace(IN_REVIEW, reference=f"ver_{self.settlement.key}")
        now = self.tick()
        until = now + timedelta(hours=24)
        self.store.update(kyc_review.begin_review(self.settlement, verdict, until, now))

    def webhook(self, decision: KycDecision = KycDecision.APPROVED) -> None:
        key, now = self.settlement.key, self.tick(3600)
        verdict = replace(APPROVED, decision=decision, reference=f"ver_{key}", provider="webhook")
        event = WebhookEvent(id=f"evt_{key}", digest=self.settlement.request_hash[::-1])
        self.store.transact(
            steps.record_webhook_verdict(self.settlement, verdict, event, f"{key}-decided", now, CONFIG)
        )

    def release(self) -> None:
        self.store.commit(steps.release(self.settlement, CONFIG, self.tick()))

    def fee(self) -> None:
        self.store.commit(steps.fee(self.settlement, self.tick()))

    def tombstone(self) -> None:
        self.store.claim(reversal.tombstone(self.settlement, self.owner, LACKS_FUNDS, self.tick()))

    def reject(self) -> None:
        self.store.update(forward.reject(self.settlement, LACKS_FUNDS, self.tick(), owner=self.owner))

    def begin(self) -> None:
        failure = compensation.failure_of(self.state(), {"Error": "KycUnavailable", "Cause": "no answer"})
        execution = f"{self.settlement.key}-c0-{NONCE}"
        self.store.update(reversal.begin(self.settlement, failure, owner=None, execution=execution))

    def order(self) -> None:
        status = self.state().status
        order = Reversal(reason=f"{self.settlement.payer} asks", by="olga", expected_status=Status(status))
        self.store.commit(compensation.reverse_on_order(self.settlement, order, self.tick(), CONFIG))

    def part(self, amount: int, layout: int) -> None:
        """Reverse `amount` of the released amount, in this row layout."""
        state = self.state()
        order = PartialReversal(
            reason=f"{self.settlement.payer} sent one back", by="olga", part=state.next_part, amount=amount
        )
        self.store.record(partial_reversal.reverse_part(self.settlement, order, self.tick(), layout))

    def reverse(self, *which: Step) -> None:
        for step in which:
            self.store.commit(compensation.reverse_step(self.settlement, step, self.tick()))

    def finish_unheld(self) -> None:
        self.store.update(reversal.finish_unheld(self.settlement, self.tick()))

    def limbo(self, step: Step) -> None:
        case = compensation.case_of(self.state(), step)
        failure = {"step": step.reversal, **STUCK, "cause": f"{STUCK['cause']}: {self.settlement.key}"}
        self.store.commit(compensation.enter_limbo(self.settlement, case, failure, self.tick()))
        arn = f"arn:aws:states:eu-west-1:123456789012:execution:C:{self.settlement.key}"
        token = f"token-{self.settlement.key}-{case.number}"
        self.store.put(limbo.await_decision(self.settlement, case.number, token, arn))

    def resolve(self, decision: Decision) -> None:
        case = compensation.stuck_case(self.state())
        resolution = Resolution(decision=decision, reason=f"for {self.settlement.payer}", by="olga", case=1)
        owner = f"{self.settlement.key}-resolve-1"
        self.store.commit(compensation.resolve(self.settlement, case, resolution, owner, self.tick(), CONFIG))

    def propose(self, decision: Decision) -> None:
        state, now, caller = self.state(), self.tick(), _caller("olga")
        order = Resolution(
            decision=decision, reason=f"for {self.settlement.payer}", by=caller.by, case=state.case_number
        )
        latest = self._latest()
        number = latest.proposal_number + 1 if latest else 1
        proposal = approval.proposed(state, order, caller, number=number, now=now, config=CONFIG)
        evidence = proposals.record(self.settlement, proposal, Move.PROPOSE, caller, now)
        self.store.record((proposals.propose(proposal, latest), evidence))

    def approve(self) -> None:
        """Approve and carry out the proposal as a second person."""
        state, now, caller = self.state(), self.tick(), _caller("paul")
        proposal = self._latest()
        assert proposal
        order = approval.order_of(state, proposal, caller)
        assert isinstance(order, Resolution)
        case, owner = compensation.stuck_case(state), f"{self.settlement.key}-resolve-1"
        transaction = compensation.resolve(self.settlement, case, order, owner, now, CONFIG)
        self.store.commit(replace(transaction, proposal=proposals.complete(proposal, caller, now)))

    def withdraw(self) -> None:
        now, caller, proposal = self.tick(), _caller("paul"), self._latest()
        assert proposal
        evidence = proposals.record(self.settlement, proposal, Move.WITHDRAW, caller, now)
        self.store.transact((proposals.withdraw(proposal, caller, now), evidence))

    def _latest(self) -> Proposal | None:
        row = self.store.read(keys.proposal(self.settlement.key))
        return Proposal.from_row(row) if row else None

    def erase_names(self) -> None:
        """Remove the parties' names, as an operator does by hand."""
        row = self.town.row(keys.settlement(self.settlement.key))
        left = {name: row[name] for name in row if name not in NAMES}
        self.town.put(left | {NAMES_ERASED: timestamp(self.tick())})

    def take_over(self, seconds: float) -> None:
        takeover = recovery.take_over(self.state(), self.tick(seconds), CONFIG, NONCE)
        assert takeover
        self.store.update(takeover.write)

    def take_over_when_due(self) -> None:
        due = datetime.fromisoformat(self.state().listed_at or "")
        self.take_over((due - self.town.now).total_seconds())

    def forward(self, *which: "str | Play") -> None:
        for one in which:
            getattr(self, one)() if isinstance(one, str) else one(self)


def _caller(name: str) -> Caller:
    return Caller(by=name, user_id=f"id:{name}", request_id=f"request-{name}", source_ip="192.0.2.1")
