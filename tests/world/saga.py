"""A settlement on a fresh table, which the tests of the store run step by step, without handlers."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from settlement.ledger import balances, entries, forward, keys, limbo, reversal
from settlement.ledger.keys import Row
from settlement.ledger.transaction import AlreadyApplied, StepTransaction
from settlement.model.case import Case
from settlement.model.errors import SettlementError
from settlement.model.orders import Decision, Resolution, Reversal
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from settlement.model.state import SettlementState
from settlement.model.status import REVERSIBLE, Status, Step
from settlement.policy import compensation, steps
from tests.world.books import assert_conserved
from tests.world.environment import NOW
from tests.world.ledger import Ledger
from tests.world.provider import APPROVED

KEY = "order-2026-000101"
HASH = "d13463c1e640ed9114f62760da3142c9e498ad261d55a5451e18c3ede91227a2"
CAP = 100_000_000
"""The highest balance in EUR of the tests' stage, in minor units."""

POSTED_AT = "2026-11-20T12:00:00.123Z"
DEADLINE = NOW + timedelta(minutes=15)
LATER = NOW + timedelta(seconds=7)
DECIDED = NOW + timedelta(hours=1)

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
    "owner_epoch": 0,
}
"""The row of a finished settlement, without its steps, its end and its failure."""

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
        "reference": "ver_1",
        "reason": "nothing is known",
        "provider": "verifications",
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

FAILURE = {"step": "release", "error": "CapExceeded", "cause": "payee: the account would hold too much"}
"""The failure for which these tests reverse a settlement, unless a person orders it."""

STUCK = {"step": "compensate:release", "error": "InsufficientFunds", "cause": "payee: has spent it"}
ORDER = Reversal(reason="the customer has sent the goods back", by="arn:aws:sts::1:assumed-role/desk/kim")
STALLED = replace(ORDER, expected_status=Status.PROCESSING)
"""The same order on a stalled settlement."""

REVERSER = f"{KEY}-compensate-0"
"""The execution that reverses the settlement."""

RESOLVER = f"{KEY}-resolve-1"
"""The execution that carries out a person's decision."""

ON_CALL = "arn:aws:sts::1:assumed-role/on-call/lee"
RETRY, WRITE_OFF, COMPLETE = (
    Resolution(decision=decision, reason=f"talked to bob: {decision}", by=ON_CALL) for decision in Decision
)


@dataclass(frozen=True)
class Saga:
    """One settlement in one table. Every call happens at `NOW` unless it names another instant."""

    ledger: Ledger
    settlement: Settlement
    config: StageConfig

    def claim(self, now: datetime = NOW, owner: str = "execution-1") -> SettlementState:
        return self.ledger.store.claim(forward.claim(self.settlement, owner, now, self.config))

    def commit(self, step: Step, now: datetime = NOW) -> Row:
        return self.ledger.store.commit(step_transaction(step, self.settlement, self.config, now))

    def reject(self, failure: dict[str, str], now: datetime = NOW) -> SettlementState:
        return self.ledger.store.update(forward.reject(self.settlement, failure, now))

    def start(self, payer: int = 10_000, payee: int = 500) -> None:
        """Open both accounts with these balances and claim the key."""
        self.ledger.open(self.settlement.payer, payer, self.settlement.currency)
        self.ledger.open(self.settlement.payee, payee, self.settlement.currency)
        self.claim()

    def before(self, step: Step) -> None:
        """Start, and commit each step before `step`."""
        self.start()
        for earlier in list(Step)[: list(Step).index(step)]:
            self.commit(earlier)

    def after(self, step: Step) -> Row:
        """Start, commit every step up to and with `step`; return its entry."""
        self.before(step)
        return self.commit(step)

    def fund(self, payer: int = 10_000, payee: int = 500) -> None:
        """Open both accounts with the deposits that explain their balances, so that the books balance."""
        for account, amount in ((self.settlement.payer, payer), (self.settlement.payee, payee)):
            currency = self.settlement.currency
            self.ledger.store.transact(
                [
                    balances.open_account(account, currency, amount),
                    entries.deposit(f"open-{account}", account, amount, currency, NOW),
                ]
            )

    def reach(self, last: Step | None) -> None:
        """Fund both accounts, claim the key, and commit every step up to and with `last`."""
        self.fund()
        self.claim()
        for step in up_to(last):
            self.commit(step)

    def begin(self, failure: Mapping[str, str] = FAILURE, owner: str | None = None) -> SettlementState:
        begin = reversal.begin(self.settlement, failure, owner=owner, execution=REVERSER)
        return self.ledger.store.update(begin)

    def order(self, order: Reversal = ORDER, now: datetime = NOW) -> Row:
        transaction = compensation.reverse_on_order(self.settlement, order, now, self.config)
        return self.ledger.store.commit(transaction)

    def assign_owner(self, execution: str = REVERSER) -> SettlementState:
        return self.ledger.store.update(reversal.assign_owner(self.settlement, execution))

    def begun(self, last: Step | None) -> None:
        """Reach `last` and begin the reversal: on a person's order if it has settled, else for a failure."""
        self.reach(last)
        if last is Step.FEE:
            self.order()
            self.assign_owner()
        else:
            self.begin()

    def reverse(self, step: Step, now: datetime = LATER, committed: Collection[str] | None = None) -> Row:
        """Reverse a step as a caller that knows of no earlier reversal: only the table can tell of one."""
        committed = self.state().steps if committed is None else committed
        transaction = compensation.reverse_step(self.settlement, step, list(committed), [], now)
        assert transaction is not None
        return self.ledger.store.commit(transaction)

    def case(self, failed: Step | None = None, **changes: Any) -> Case:
        """Return the case of a failed reversal, or else the open case of the row, with these changes."""
        state = self.state()
        case = compensation.stuck_case(state) if failed is None else compensation.case_of(state, failed)
        return replace(case, **changes)

    def enter(
        self, case: Case | None = None, failure: Mapping[str, str] = STUCK, now: datetime = LATER
    ) -> Row:
        """Enter LIMBO with this case, or with the case of the reversal that the failure names."""
        failed = next(step for step in REVERSIBLE if step.reversal == failure["step"])
        case = case or self.case(failed)
        return self.ledger.store.commit(compensation.enter_limbo(self.settlement, case, failure, now))

    def stuck(self, step: Step, last: Step = Step.FEE) -> None:
        """Reach `last`, begin the reversal, and enter LIMBO at the reversal of `step`."""
        self.begun(last)
        for earlier in REVERSIBLE[: REVERSIBLE.index(step)]:
            self.reverse(earlier)
        self.enter(failure=STUCK | {"step": step.reversal})

    def wait(self, token: str = "token-1", execution: str = "arn:execution-1") -> SettlementState:
        return self.ledger.store.update(limbo.await_decision(self.settlement, token, execution))

    def resolve(
        self,
        resolution: Resolution,
        now: datetime = DECIDED,
        case: Case | None = None,
    ) -> Row:
        """Decide on this case, or else on the open case of the row."""
        transaction = compensation.resolve(
            self.settlement, case or self.case(), resolution, RESOLVER, now, self.config
        )
        return self.ledger.store.commit(transaction)

    def spent(self, amount: int, payer: str = "bob", key: str = "order-2026-000202") -> "Saga":
        """Claim another settlement, whose hold takes `amount` from the account of `payer`."""
        other = self.asking(key=key, payer=payer, payee="carol", amount=amount, fee=0)
        other.claim()
        return other

    def books(self, key: str = KEY) -> list[Row]:
        """Check that all the books balance; return the accounts and one settlement with its entries."""
        found = self.ledger.rows()
        assert_conserved(found)
        return [row for row in found if row["pk"].startswith("ACCOUNT#") or row["pk"].endswith(f"#{key}")]

    def row(self) -> Row:
        """Return the settlement's raw row."""
        found = self.ledger.row(keys.settlement(self.settlement.key))
        assert found is not None
        return found

    def state(self) -> SettlementState:
        """Return the settlement's row as the store's callers see it."""
        found = self.ledger.store.settlement(self.settlement.key)
        assert found is not None
        return found

    def alter(self, **attributes: Any) -> None:
        """Overwrite attributes of the settlement's row, past every condition."""
        self.ledger.put(self.row() | attributes)

    def asking(self, **changes: Any) -> "Saga":
        """Return the same saga for a request with other content."""
        return replace(self, settlement=replace(self.settlement, **changes))

    @contextmanager
    def writes_nothing(self) -> Iterator[None]:
        """Demand that the table is the same, row by row, before and after."""
        before = self.ledger.rows()
        yield
        assert self.ledger.rows() == before


def step_transaction(
    step: Step, settlement: Settlement, config: StageConfig, now: datetime = NOW
) -> StepTransaction:
    """Return the transaction of a step, as its handler makes it."""
    if step is Step.HOLD:
        return steps.hold(settlement, now)
    if step is Step.VERIFY:
        return steps.verify(settlement, APPROVED, now)
    if step is Step.RELEASE:
        return steps.release(settlement, config, now)
    return steps.fee(settlement, now)


def outcome_of(call: Any) -> Any:
    """Return the result of a call, or the refusal or the earlier call that it meets."""
    try:
        return call()
    except (SettlementError, AlreadyApplied) as refusal:
        return refusal


def up_to(last: Step | None) -> list[Step]:
    """Return the forward steps up to and with `last`."""
    return list(Step)[: list(Step).index(last) + 1] if last else []


def so_far(last: Step) -> Row:
    """Return the attributes of a settlement's row about the forward steps once `last` has committed."""
    committed = up_to(last)
    verdict = {"verdict": "APPROVED"} if Step.VERIFY in committed else {}
    return {"steps": {step.value for step in committed}, **verdict}


def state_of(row: Row) -> SettlementState:
    """Return the state that the store makes from a settlement's row."""
    return SettlementState.from_row(row)
