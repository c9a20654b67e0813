"""Runs a settlement step by step without handlers, for the store's tests."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, assert_never

from settlement.core.ledger import entries, forward, keys, kyc_review, limbo, reversal
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, StepTransaction
from settlement.core.model.case import Case
from settlement.core.model.errors import SettlementError
from settlement.core.model.orders import Decision, Resolution, Reversal
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.status import REVERSIBLE, Status, Step
from settlement.core.model.verdict import Verdict
from settlement.core.policy import compensation, steps
from tests.world.books import assert_conserved
from tests.world.constants import NONCE
from tests.world.environment import NOW
from tests.world.journal import assert_recorded, journal
from tests.world.ledger import Ledger
from tests.world.openings import open_order, opening
from tests.world.provider import APPROVED

KEY = "order-2026-000101"
HASH = "d13463c1e640ed9114f62760da3142c9e498ad261d55a5451e18c3ede91227a2"
CAP = 100_000_000
"""The stage's balance limit in EUR, in minor units."""

POSTED_AT = "2026-11-20T12:00:00.123Z"
DEADLINE = NOW + timedelta(minutes=15)
LATER = NOW + timedelta(seconds=7)
DECIDED = NOW + timedelta(hours=1)


def _account(name: str, available: int) -> Row:
    row: Row = {"pk": f"ACCOUNT#{name}", "sk": "BALANCE", "available": available, "currency": "EUR"}
    return row | {"opened_at": POSTED_AT, "last_order": open_order(name).key}


ALICE, BOB = _account("alice", 10_000), _account("bob", 500)
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
    "owner_epoch": 0,
    "sequence": 1,
}
"""A finished settlement's row, without the attributes about its steps, end and failure."""

CLAIMED = FINISHED | IN_FLIGHT | {"status": "PROCESSING"}

_ENTRY = {"posted_at": POSTED_AT, "request_hash": HASH}
_MONEY = _ENTRY | {"currency": "EUR"}
ENTRIES: dict[Step, Row] = {
    Step.HOLD: _MONEY
    | {
        "pk": "ENTRIES#alice",
        "sk": f"{POSTED_AT}#{KEY}:hold",
        "step": "hold",
        "debit": "alice",
        "credit": f"escrow:{KEY}",
        "side": "debit",
        "amount": 4820,
    },
    Step.VERIFY: _ENTRY
    | {
        "pk": f"EVIDENCE#{KEY}",
        "sk": f"{KEY}:verify",
        "step": "verify",
        "decision": "APPROVED",
        "reference": "ver_1",
        "reason": "nothing is known",
        "provider": "verifications",
    },
    Step.RELEASE: _MONEY
    | {
        "pk": "ENTRIES#bob",
        "sk": f"{POSTED_AT}#{KEY}:release",
        "step": "release",
        "debit": f"escrow:{KEY}",
        "credit": "bob",
        "side": "credit",
        "amount": 4772,
    },
    Step.FEE: _MONEY
    | {
        "pk": "ENTRIES#fees:EUR#2",
        "sk": f"{POSTED_AT}#{KEY}:fee",
        "step": "fee",
        "debit": f"escrow:{KEY}",
        "credit": "fees:EUR",
        "side": "credit",
        "amount": 48,
    },
}
"""The rows that forward steps write at `NOW`."""

OTHER_STATUSES = [status for status in Status if status is not Status.PROCESSING]

FAILURE = {"step": "release", "error": "CapExceeded", "cause": "payee: the account would hold too much"}
"""The default reason of a reversal that no person orders."""

STUCK = {"step": "compensate:release", "error": "InsufficientFunds", "cause": "payee: has spent it"}
ORDER = Reversal(reason="the customer has sent the goods back", by="arn:aws:sts::1:assumed-role/desk/kim")
STALLED = replace(ORDER, expected_status=Status.PROCESSING)

REVERSER = f"{KEY}-c0-{NONCE}"

RESOLVER = f"{KEY}-resolve-1"

ON_CALL = "arn:aws:sts::1:assumed-role/on-call/lee"
RETRY, WRITE_OFF, COMPLETE = (
    Resolution(decision=decision, reason=f"talked to bob: {decision}", by=ON_CALL, case=1)
    for decision in Decision
)


@dataclass(frozen=True)
class Saga:
    """One settlement in one table, at `NOW` by default."""

    ledger: Ledger
    settlement: Settlement
    config: StageConfig

    def claim(self, now: datetime = NOW, owner: str = "execution-1") -> SettlementState:
        return self.ledger.store.claim(forward.claim(self.settlement, owner, now, self.config))

    def claim_and_hold(self, now: datetime = NOW, owner: str = "execution-1") -> SettlementState | None:
        """Claim and hold in one transaction; return the state that an earlier claim left, if any."""
        transaction = steps.claim_and_hold(self.settlement, owner, now, self.config)
        try:
            self.ledger.store.transact(transaction.writes)
        except AlreadyApplied as earlier:
            found: SettlementState = earlier.found
            return found
        return None

    def send(self, step: Step, now: datetime = NOW) -> SettlementState | None:
        """Commit a step; return the state that an earlier call left, if any.

        A hold needs a claim first. For a verdict, which is two writes, return the new state.
        """
        if step is Step.VERIFY:
            return self.verify(now=now)
        transaction = step_transaction(step, self.settlement, self.config, now)
        found: SettlementState | None = self.ledger.store.commit(transaction)
        return found

    def commit(self, step: Step, now: datetime = NOW) -> Row:
        self.send(step, now)
        return self.entry(step)

    def verify(self, verdict: Verdict = APPROVED, now: datetime = NOW) -> SettlementState:
        """Record a verdict as VerifyKyc does: evidence, then the recorded verdict on the row."""
        return self.put_verdict(Verdict.on_record(self.put_evidence(verdict, now)), now)

    def put_evidence(self, verdict: Verdict = APPROVED, now: datetime = NOW) -> Row:
        return self.ledger.store.put(entries.evidence(self.settlement, Step.VERIFY, verdict.evidence(), now))

    def put_verdict(self, verdict: Verdict = APPROVED, now: datetime = NOW) -> SettlementState:
        return self.ledger.store.update(kyc_review.record_verdict(self.settlement, verdict, now))

    def entry(self, step: str) -> Row:
        """Return a step's entry, evidence, or both merged."""
        return journal(self.ledger.rows(), self.settlement.key)[step]

    def reject(
        self, failure: Mapping[str, str], now: datetime = NOW, owner: str | None = None
    ) -> SettlementState:
        return self.ledger.store.update(forward.reject(self.settlement, failure, now, owner=owner))

    def tombstone(
        self, failure: Mapping[str, str], now: datetime = NOW, owner: str = "compensation-1"
    ) -> SettlementState:
        return self.ledger.store.claim(reversal.tombstone(self.settlement, owner, failure, now))

    def start(self, payer: int = 10_000, payee: int = 500) -> None:
        self.ledger.open(self.settlement.payer, payer, self.settlement.currency)
        self.ledger.open(self.settlement.payee, payee, self.settlement.currency)
        self.claim()

    def before(self, step: Step) -> None:
        self.start()
        for earlier in list(Step)[: list(Step).index(step)]:
            self.commit(earlier)

    def after(self, step: Step) -> Row:
        self.before(step)
        return self.commit(step)

    def fund(self, payer: int = 10_000, payee: int = 500) -> None:
        """Open both accounts with deposits, so the books balance."""
        for account, amount in ((self.settlement.payer, payer), (self.settlement.payee, payee)):
            currency = self.settlement.currency
            self.ledger.store.transact(opening(account, amount, currency, NOW))

    def reach(self, last: Step | None) -> None:
        """Fund, claim, and commit the steps including `last`."""
        self.fund()
        self.claim()
        for step in up_to(last):
            self.commit(step)

    def begin(self, failure: Mapping[str, str] = FAILURE, owner: str | None = None) -> SettlementState:
        begin = reversal.begin(self.settlement, failure, owner=owner, execution=REVERSER)
        return self.ledger.store.update(begin)

    def order(self, order: Reversal = ORDER, now: datetime = NOW) -> Row:
        transaction = compensation.reverse_on_order(self.settlement, order, now, self.config)
        self.ledger.store.commit(transaction)
        return self.entry("reverse")

    def assign_owner(self, execution: str = REVERSER) -> SettlementState:
        return self.ledger.store.update(reversal.assign_owner(self.settlement, execution))

    def begun(self, last: Step | None) -> None:
        """Reach `last` and begin a reversal, on an order if it settled."""
        self.reach(last)
        if last is Step.FEE:
            self.order()
            self.assign_owner()
        else:
            self.begin()

    def send_reversal(self, step: Step, now: datetime = LATER) -> SettlementState | None:
        transaction = compensation.reverse_step(self.settlement, step, now)
        found: SettlementState | None = self.ledger.store.commit(transaction)
        return found

    def reverse(self, step: Step, now: datetime = LATER) -> Row:
        self.send_reversal(step, now)
        return self.entry(step.reversal)

    def finish_unheld(self, now: datetime = LATER) -> SettlementState:
        return self.ledger.store.update(reversal.finish_unheld(self.settlement, now))

    def unwind(self, now: datetime = LATER) -> None:
        state = self.state()
        for step in state.unreversed:
            self.reverse(step, now)
        if not state.steps:
            self.finish_unheld(now)

    def case(self, failed: Step | None = None, **changes: Any) -> Case:
        """Return the case that a failed reversal opens, or by default the open case."""
        state = self.state()
        case = compensation.stuck_case(state) if failed is None else compensation.case_of(state, failed)
        return replace(case, **changes)

    def enter(
        self, case: Case | None = None, failure: Mapping[str, str] = STUCK, now: datetime = LATER
    ) -> Row:
        failed = next(step for step in REVERSIBLE if step.reversal == failure["step"])
        case = case or self.case(failed)
        self.ledger.store.commit(compensation.enter_limbo(self.settlement, case, failure, now))
        return self.entry(f"limbo:{case.number}")

    def stuck(self, step: Step, last: Step | None = Step.FEE) -> None:
        """Enter LIMBO at the reversal of `step`, after `last`."""
        self.begun(last)
        for earlier in REVERSIBLE[: REVERSIBLE.index(step)]:
            if earlier in up_to(last):
                self.reverse(earlier)
        self.enter(failure=STUCK | {"step": step.reversal})

    def wait(self, token: str = "token-1", execution: str = "arn:execution-1", case: int = 1) -> Row:
        return self.ledger.store.put(limbo.await_decision(self.settlement, case, token, execution))

    def resolve(
        self,
        resolution: Resolution,
        now: datetime = DECIDED,
        case: Case | None = None,
    ) -> Row:
        case = case or self.case()
        transaction = compensation.resolve(self.settlement, case, resolution, RESOLVER, now, self.config)
        self.ledger.store.commit(transaction)
        return self.entry(f"resolve:{case.number}")

    def spent(self, amount: int, payer: str = "bob", key: str = "order-2026-000202") -> "Saga":
        """Claim, without the hold, another settlement in which `payer` spends `amount`."""
        other = self.asking(key=key, payer=payer, payee="carol", amount=amount, fee=0)
        other.claim()
        return other

    def books(self, key: str = KEY) -> list[Row]:
        """Check the books; return the accounts and one settlement's rows.

        Order: accounts, entries, evidence, settlement, waiting execution.
        """
        found = self.ledger.rows()
        assert_conserved(found)
        assert_recorded(found)
        return [
            row
            for row in found
            if row["pk"].startswith("ACCOUNT#") or row["pk"].endswith(f"#{key}") or f"#{key}:" in row["sk"]
        ]

    def row(self) -> Row:
        found = self.ledger.row(keys.settlement(self.settlement.key))
        assert found is not None
        return found

    def state(self) -> SettlementState:
        found = self.ledger.store.settlement(self.settlement.key)
        assert found is not None
        return found

    def alter(self, **attributes: Any) -> None:
        """Overwrite attributes of the row, bypassing all conditions."""
        self.ledger.put(self.row() | attributes)

    def asking(self, **changes: Any) -> "Saga":
        return replace(self, settlement=replace(self.settlement, **changes))

    @contextmanager
    def writes_nothing(self) -> Iterator[None]:
        before = self.ledger.rows()
        yield
        assert self.ledger.rows() == before

    @contextmanager
    def writes_only_evidence(self) -> Iterator[None]:
        before = self.ledger.rows()
        yield
        found = self.ledger.rows()
        name = f"{self.settlement.key}:verify"
        assert [row for row in found if row in before or row["sk"] != name] == before


def step_transaction(
    step: Step, settlement: Settlement, config: StageConfig, now: datetime = NOW
) -> StepTransaction:
    """Return a money-moving step's transaction, as its handler makes it."""
    match step:
        case Step.HOLD:
            return steps.hold(settlement, now)
        case Step.VERIFY:
            raise ValueError("a verdict needs no transaction")
        case Step.RELEASE:
            return steps.release(settlement, config, now)
        case Step.FEE:
            return steps.fee(settlement, now)
        case _:
            assert_never(step)


def outcome_of(call: Any) -> Any:
    """Run a call; return its result, or the SettlementError or AlreadyApplied that it raises."""
    try:
        return call()
    except (SettlementError, AlreadyApplied) as refusal:
        return refusal


def up_to(last: Step | None) -> list[Step]:
    return list(Step)[: list(Step).index(last) + 1] if last else []


def so_far(last: Step) -> Row:
    """Return the attributes of the row that the steps up to `last` have set."""
    committed = up_to(last)
    verdict = {"verdict": "APPROVED"} if Step.VERIFY in committed else {}
    sequence = {"sequence": 1 + len(committed)}  # the claim emitted the first event
    return {step.slot: POSTED_AT for step in committed} | verdict | sequence


def state_of(row: Row) -> SettlementState:
    return SettlementState.from_row(row)
