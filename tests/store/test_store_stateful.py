"""The store in any order: Hypothesis makes the sequences, `ledger_rules` says what holds after each call.

Every call may be an old one again, may have other content, may come from a row that was read long ago, and
may meet a conflict, throttling, or an answer that is lost after its commit. `STORE_SEQUENCES` says how many.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from settlement import compensation, items, limbo, recovery, reversals, reviews, rows, steps, telemetry
from settlement.errors import IdempotencyConflict, KycUnavailable, Refusal, StoreUnavailable
from settlement.request import Settlement
from settlement.resolution import Decision, Resolution, Reversal
from settlement.reviews import Event
from settlement.rows import Row
from settlement.status import REVERSIBLE, Status, Step
from settlement.store import Store
from settlement.writes import Standing
from tests.conftest import NOW
from tests.store.faulty_client import Fault, FaultyClient
from tests.store.ledger_rules import assert_all_add_up, assert_lawful
from tests.store.saga import FAILURE, STUCK, posting
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED
from tests.support.memory_dynamodb import MemoryDynamoDb
from tests.unit.vectors import TERMS

BALANCES = {"alice": 7_500, "bob": 500, "carol": 99_998_000}
"""Too little for all settlements at once, and, with Carol, nearly too much."""

SETTLEMENTS = [
    Settlement(
        key=f"order-2026-00020{number}", payer=payer, payee=payee, amount=amount, currency="EUR", fee=fee
    )
    for number, (payer, payee, amount, fee) in enumerate(
        [("alice", "bob", 4820, 48), ("bob", "alice", 3000, 0), ("alice", "carol", 2500, 25)]
    )
]
EXAMPLES = int(os.environ.get("STORE_SEQUENCES", "250"))
BY = "arn:aws:sts::1:assumed-role/desk/kim"
FAULTS = st.sampled_from([Fault.NONE] * 20 + list(Fault) + [Fault.LOST] * 3)
WHICH = st.sampled_from(range(len(SETTLEMENTS)))
EXECUTIONS = st.sampled_from(["execution-1", "execution-2"])
STAGES = st.sampled_from([0, *range(len(Step) + 1), *range(3, 8), 6, 7, 7])
"""How far a settlement comes at first: steps, then also their reversal, by an order, and LIMBO."""

STALE = st.sampled_from([False, False, True])


class Settlements(RuleBasedStateMachine):
    """Three settlements among three accounts, and a clock."""

    def __init__(self) -> None:
        super().__init__()
        self.table = MemoryDynamoDb(committed=assert_lawful)
        self.client = FaultyClient(self.table)
        self.store = Store(self.client, "table", pause=lambda failed_tries: None)
        self.now, self.events = NOW, 0
        self.calls: list[Callable[[], object]] = []
        self.latest: dict[int, Row] = {}
        self.before: dict[int, Row] = {}
        for account, available in BALANCES.items():
            opened = items.open_account(account, "EUR", available)
            self.store.transact(
                [opened, items.deposit_entry(f"open-{account}", account, available, "EUR", NOW)]
            )

    # What happens.

    @initialize(stages=st.tuples(STAGES, STAGES, STAGES))
    def come_so_far(self, stages: tuple[int, ...]) -> None:
        for which, stage in enumerate(stages):
            stops_at = len(Step) - 1 if which == 0 and stage > len(Step) else len(Step)
            self.goes_on(which, min(stage, stops_at) + 1 if stage else 0, Fault.NONE)
            if stage > len(Step):
                self.begin(which, None, Fault.NONE)
                self.order_a_reversal(which, Status.SETTLED, Fault.NONE)
            if stage > len(Step) + 1:
                self.enter_limbo(which, REVERSIBLE[which], stale=False, fault=Fault.NONE)
            if stage > len(Step) + 2:
                self.resolve(which, list(Decision)[sum(stages) % 3], stale=False, fault=Fault.NONE)

    @rule(seconds=st.sampled_from([1, 31, 300, 901]))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(which=WHICH, owner=EXECUTIONS, fault=FAULTS)
    def claim(self, which: int, owner: str, fault: Fault) -> None:
        now = self.now
        self._call(fault, lambda: self.store.claim(items.claim(SETTLEMENTS[which], owner, now, TERMS)))

    @rule(which=WHICH, times=st.integers(1, 5), fault=FAULTS)
    def goes_on(self, which: int, times: int, fault: Fault) -> None:
        """The next step or the next reversal, a few times, as the machines would have it."""
        for _ in range(times):
            row = self._row(which)
            if row is None:
                self.claim(which, "execution-1", fault)
            elif row["status"] == Status.PROCESSING and len(row.get("steps", ())) < len(Step):
                self.post(which, list(Step)[len(row.get("steps", ()))], fault)
            elif row["status"] == Status.COMPENSATING:
                step = next((step for step in REVERSIBLE if step not in row.get("reversed", ())), Step.HOLD)
                self.undo(which, step, stale=False, fault=fault)

    @rule(which=WHICH, step=st.sampled_from(Step), fault=FAULTS, behind=st.sampled_from([0, 0, 0, 900]))
    def post(self, which: int, step: Step, fault: Fault, behind: int = 0) -> None:
        """Post a step, at times by a clock that is seconds behind the others'."""
        made = posting(step, SETTLEMENTS[which], TERMS, self.now - timedelta(seconds=behind))
        self._call(fault, lambda: self.store.post(made))

    @rule(which=WHICH, step=st.sampled_from(Step), cents=st.sampled_from([1, -1]), fault=FAULTS)
    def post_other_content(self, which: int, step: Step, cents: int, fault: Fault) -> None:
        other = replace(SETTLEMENTS[which], amount=SETTLEMENTS[which].amount + cents)
        with self._unchanged():
            refusal = self._call(fault, lambda: self.store.post(posting(step, other, TERMS, self.now)))
        if self._row(which) and not isinstance(refusal, StoreUnavailable):
            assert isinstance(refusal, IdempotencyConflict)

    @rule(which=WHICH, fault=FAULTS)
    def reject(self, which: int, fault: Fault) -> None:
        made = items.reject(SETTLEMENTS[which], FAILURE | {"step": "hold"}, self.now)
        self._call(fault, lambda: self.store.update(made))

    @rule(which=WHICH, fault=FAULTS)
    def leave_to_a_review(self, which: int, fault: Fault) -> None:
        until = self.now + timedelta(days=1)
        made = reviews.park(SETTLEMENTS[which], IN_REVIEW, until, self.now)
        self._call(fault, lambda: self.store.update(made))

    @rule(which=WHICH, verdict=st.sampled_from([APPROVED, REJECTED]), again=STALE, fault=FAULTS)
    def hear_a_verdict(self, which: int, verdict: Any, again: bool, fault: Fault) -> None:
        self.events += not again
        event = Event(id=f"evt-{self.events}", digest=f"digest-of-{self.events}")
        owner = f"{SETTLEMENTS[which].key}-decided"
        made = steps.verdict_received(SETTLEMENTS[which], verdict, event, owner, self.now, TERMS)
        self._call(fault, lambda: self.store.transact(made))

    @rule(which=WHICH, owner=st.none() | EXECUTIONS, fault=FAULTS)
    def begin(self, which: int, owner: str | None, fault: Fault) -> None:
        made = reversals.begin(SETTLEMENTS[which], FAILURE, owner=owner, execution="compensate-1")
        self._call(fault, lambda: self.store.update(made))

    @rule(which=WHICH, seen=st.sampled_from([Status.SETTLED, Status.PROCESSING]), fault=FAULTS)
    def order_a_reversal(self, which: int, seen: Status, fault: Fault) -> None:
        made = compensation.requested(
            SETTLEMENTS[which], Reversal(reason="sent back", by=BY, seen=seen), self.now, TERMS
        )
        self._call(fault, lambda: self.store.post(made))

    @rule(which=WHICH, step=st.sampled_from(REVERSIBLE), stale=STALE, fault=FAULTS)
    def undo(self, which: int, step: Step, stale: bool, fault: Fault) -> None:
        row = self._seen(which, stale)
        if row and row["status"] == Status.COMPENSATING:
            committed, reversed_ = list(row.get("steps", ())), list(row.get("reversed", ()))
            made = compensation.undo(SETTLEMENTS[which], step, committed, reversed_, self.now)
            if made:
                self._call(fault, lambda: self.store.post(made))

    @rule(which=WHICH, step=st.sampled_from(REVERSIBLE), stale=STALE, fault=FAULTS)
    def enter_limbo(self, which: int, step: Step, stale: bool, fault: Fault) -> None:
        row = self._seen(which, stale)
        if row and row["status"] == Status.COMPENSATING:
            case = compensation.case_of(SETTLEMENTS[which], row, step)
            failure = STUCK | {"step": step.reversal}
            made = compensation.enter_limbo(SETTLEMENTS[which], case, failure, self.now)
            self._call(fault, lambda: self.store.post(made))

    @rule(which=WHICH, fault=FAULTS)
    def wait_for_a_decision(self, which: int, fault: Fault) -> None:
        made = limbo.await_decision(SETTLEMENTS[which], "token-1", "arn:execution-1")
        self._call(fault, lambda: self.store.update(made))

    @rule(which=WHICH, decision=st.sampled_from(Decision), stale=STALE, fault=FAULTS)
    def resolve(self, which: int, decision: Decision, stale: bool, fault: Fault) -> None:
        settlement, row = SETTLEMENTS[which], self._seen(which, stale)
        if row is None or row["status"] != Status.LIMBO:
            return
        try:
            compensation.check(settlement, row, decision)
        except Refusal:
            return
        case, order = (
            compensation.stuck(settlement, row),
            Resolution(reason="talked", by=BY, decision=decision),
        )
        made = compensation.resolve(settlement, case, order, "resolve-1", self.now, TERMS)
        self._call(fault, lambda: self.store.post(made))

    @rule(which=WHICH, stale=STALE, fault=FAULTS)
    def recover(self, which: int, stale: bool, fault: Fault) -> None:
        row = self._seen(which, stale)
        takeover = recovery.take_over(row, self.now, TERMS) if row else None
        if takeover:
            write = takeover.write
            self._call(fault, lambda: self.store.update(write))

    @rule(which=WHICH, stale=STALE, fault=FAULTS)
    def postpone(self, which: int, stale: bool, fault: Fault) -> None:
        row = self._seen(which, stale)
        if row and row["status"] == Status.COMPENSATING:
            made = recovery.postpone(row, self.now, TERMS)
            self._call(fault, lambda: self.store.update(made))

    @rule(which=WHICH, execution=EXECUTIONS, fault=FAULTS)
    def drive(self, which: int, execution: str, fault: Fault) -> None:
        made = reversals.drive(SETTLEMENTS[which], execution)
        self._call(fault, lambda: self.store.update(made))

    @rule(data=st.data(), fault=FAULTS)
    def replay(self, data: st.DataObject, fault: Fault) -> None:
        """Any earlier call again, as it was."""
        if self.calls:
            call = data.draw(st.sampled_from(range(len(self.calls))))
            self._call(fault, self.calls[call], kept=False)

    @invariant()
    def all_adds_up(self) -> None:
        assert_all_add_up(self.table.items.values())

    # How.

    def _call(self, fault: Fault, call: Callable[[], object], *, kept: bool = True) -> object:
        """Make a call under a fault, and return its outcome. What was refused has written nothing."""
        if kept:
            self.calls.append(call)
        before, self.client.fault = dict(self.table.items), fault
        outcome = outcome_of(call)
        self.client.fault = Fault.NONE
        if isinstance(outcome, Exception) and fault is not Fault.LOST:
            assert self.table.items == before, f"written, and refused: {outcome!r}"
        return outcome

    def _unchanged(self) -> Any:
        return _Unchanged(self.table.items)

    def _row(self, which: int) -> Row | None:
        return self.store.read(rows.settlement_key(SETTLEMENTS[which].key))

    def _seen(self, which: int, stale: bool) -> Row | None:
        """The settlement's row as it is, or as it was before the last change that a look at it found."""
        if stale:
            return self.before.get(which)
        row = self._row(which)
        if row and row != self.latest.get(which):
            self.before[which] = self.latest.get(which, row)
            self.latest[which] = row
        return row


def outcome_of(call: Callable[[], object]) -> object:
    """What a call returns, or the refusal that it raises; anything else that it raises is a fault of ours."""
    try:
        return call()
    except (Refusal, StoreUnavailable, KycUnavailable, Standing) as refusal:
        return refusal


class _Unchanged:
    """Demands that the rows are the same before and after."""

    def __init__(self, found: Mapping[Any, Any]) -> None:
        self._found, self._before = found, dict(found)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        assert self._found == self._before


def test_calls_in_any_order_under_any_fault_keep_the_books_and_the_table_of_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(telemetry, "called", lambda operation, consumed: None)
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Settlements,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
