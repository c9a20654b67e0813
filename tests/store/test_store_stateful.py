"""The store in any order: Hypothesis makes the sequences, `ledger_rules` has the rules after each call.

Every call may repeat an earlier one, have other content, come from a row that was read long ago, or meet a
conflict, throttling, or the loss of an answer after its commit. `STORE_SEQUENCES` is the number of sequences.
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

from settlement.adapters import telemetry
from settlement.adapters.dynamodb import Store
from settlement.ledger import balances, entries, forward, kyc_review, limbo, reversal
from settlement.ledger.kyc_review import WebhookEvent
from settlement.ledger.transaction import AlreadyApplied
from settlement.model.errors import IdempotencyConflict, KycUnavailable, Refusal, StoreUnavailable
from settlement.model.orders import Decision, Resolution, Reversal
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from settlement.model.state import SettlementState
from settlement.model.status import REVERSIBLE, Status, Step
from settlement.policy import compensation, recovery, steps
from tests.conftest import NOW
from tests.store.faulty_client import Fault, FaultyClient
from tests.store.ledger_rules import assert_all_add_up, assert_lawful
from tests.store.saga import FAILURE, STUCK, step_transaction
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED
from tests.support.memory_dynamodb import MemoryDynamoDb

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
CONFIG = StageConfig.from_json(os.environ["STAGE_CONFIG"])
EXAMPLES = int(os.environ.get("STORE_SEQUENCES", "250"))
BY = "arn:aws:sts::1:assumed-role/desk/kim"
FAULTS = st.sampled_from([Fault.NONE] * 20 + list(Fault) + [Fault.LOST] * 3)
WHICH = st.sampled_from(range(len(SETTLEMENTS)))
EXECUTIONS = st.sampled_from(["execution-1", "execution-2"])
STAGES = st.sampled_from([0, *range(len(Step) + 1), *range(3, 8), 6, 7, 7])
"""The first progress of a settlement: steps, then also their reversal, by an order, and LIMBO."""

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
        self.latest: dict[int, SettlementState] = {}
        self.before: dict[int, SettlementState] = {}
        for account, available in BALANCES.items():
            opened = balances.open_account(account, "EUR", available)
            self.store.transact([opened, entries.deposit(f"open-{account}", account, available, "EUR", NOW)])

    # Rules.

    @initialize(stages=st.tuples(STAGES, STAGES, STAGES))
    def come_so_far(self, stages: tuple[int, ...]) -> None:
        for which, stage in enumerate(stages):
            stops_at = len(Step) - 1 if which == 0 and stage > len(Step) else len(Step)
            self.continue_it(which, min(stage, stops_at) + 1 if stage else 0, Fault.NONE)
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
        self._call(fault, lambda: self.store.claim(forward.claim(SETTLEMENTS[which], owner, now, CONFIG)))

    @rule(which=WHICH, times=st.integers(1, 5), fault=FAULTS)
    def continue_it(self, which: int, times: int, fault: Fault) -> None:
        """Call the next step or the next reversal, a few times, as the machines do."""
        for _ in range(times):
            state = self._state(which)
            if state is None:
                self.claim(which, "execution-1", fault)
            elif state.status is Status.PROCESSING and len(state.steps) < len(Step):
                self.commit(which, list(Step)[len(state.steps)], fault)
            elif state.status is Status.COMPENSATING:
                step = next((step for step in REVERSIBLE if step not in state.reversed), Step.HOLD)
                self.reverse(which, step, stale=False, fault=fault)

    @rule(which=WHICH, step=st.sampled_from(Step), fault=FAULTS, behind=st.sampled_from([0, 0, 0, 900]))
    def commit(self, which: int, step: Step, fault: Fault, behind: int = 0) -> None:
        """Commit a step, at times by a clock that lags by seconds."""
        made = step_transaction(step, SETTLEMENTS[which], CONFIG, self.now - timedelta(seconds=behind))
        self._call(fault, lambda: self.store.commit(made))

    @rule(which=WHICH, step=st.sampled_from(Step), cents=st.sampled_from([1, -1]), fault=FAULTS)
    def commit_other_content(self, which: int, step: Step, cents: int, fault: Fault) -> None:
        other = replace(SETTLEMENTS[which], amount=SETTLEMENTS[which].amount + cents)
        with self._unchanged():
            refusal = self._call(
                fault, lambda: self.store.commit(step_transaction(step, other, CONFIG, self.now))
            )
        if self._state(which) and not isinstance(refusal, StoreUnavailable):
            assert isinstance(refusal, IdempotencyConflict)

    @rule(which=WHICH, fault=FAULTS)
    def reject(self, which: int, fault: Fault) -> None:
        made = forward.reject(SETTLEMENTS[which], FAILURE | {"step": "hold"}, self.now)
        self._call(fault, lambda: self.store.update(made))

    @rule(which=WHICH, fault=FAULTS)
    def leave_to_a_review(self, which: int, fault: Fault) -> None:
        until = self.now + timedelta(days=1)
        made = kyc_review.begin_review(SETTLEMENTS[which], IN_REVIEW, until, self.now)
        self._call(fault, lambda: self.store.update(made))

    @rule(which=WHICH, verdict=st.sampled_from([APPROVED, REJECTED]), again=STALE, fault=FAULTS)
    def hear_a_verdict(self, which: int, verdict: Any, again: bool, fault: Fault) -> None:
        self.events += not again
        event = WebhookEvent(id=f"evt-{self.events}", digest=f"digest-of-{self.events}")
        owner = f"{SETTLEMENTS[which].key}-decided"
        made = steps.record_webhook_verdict(SETTLEMENTS[which], verdict, event, owner, self.now, CONFIG)
        self._call(fault, lambda: self.store.transact(made))

    @rule(which=WHICH, owner=st.none() | EXECUTIONS, fault=FAULTS)
    def begin(self, which: int, owner: str | None, fault: Fault) -> None:
        made = reversal.begin(SETTLEMENTS[which], FAILURE, owner=owner, execution="compensate-1")
        self._call(fault, lambda: self.store.update(made))

    @rule(which=WHICH, seen=st.sampled_from([Status.SETTLED, Status.PROCESSING]), fault=FAULTS)
    def order_a_reversal(self, which: int, seen: Status, fault: Fault) -> None:
        order = Reversal(reason="sent back", by=BY, expected_status=seen)
        made = compensation.reverse_on_order(SETTLEMENTS[which], order, self.now, CONFIG)
        self._call(fault, lambda: self.store.commit(made))

    @rule(which=WHICH, step=st.sampled_from(REVERSIBLE), stale=STALE, fault=FAULTS)
    def reverse(self, which: int, step: Step, stale: bool, fault: Fault) -> None:
        state = self._seen(which, stale)
        if state and state.status is Status.COMPENSATING:
            committed, reversed_ = list(state.steps), list(state.reversed)
            made = compensation.reverse_step(SETTLEMENTS[which], step, committed, reversed_, self.now)
            if made:
                self._call(fault, lambda: self.store.commit(made))

    @rule(which=WHICH, step=st.sampled_from(REVERSIBLE), stale=STALE, fault=FAULTS)
    def enter_limbo(self, which: int, step: Step, stale: bool, fault: Fault) -> None:
        state = self._seen(which, stale)
        if state and state.status is Status.COMPENSATING:
            case = compensation.case_of(state, step)
            failure = STUCK | {"step": step.reversal}
            made = compensation.enter_limbo(SETTLEMENTS[which], case, failure, self.now)
            self._call(fault, lambda: self.store.commit(made))

    @rule(which=WHICH, fault=FAULTS)
    def wait_for_a_decision(self, which: int, fault: Fault) -> None:
        made = limbo.await_decision(SETTLEMENTS[which], "token-1", "arn:execution-1")
        self._call(fault, lambda: self.store.update(made))

    @rule(which=WHICH, decision=st.sampled_from(Decision), stale=STALE, fault=FAULTS)
    def resolve(self, which: int, decision: Decision, stale: bool, fault: Fault) -> None:
        settlement, state = SETTLEMENTS[which], self._seen(which, stale)
        if state is None or state.status is not Status.LIMBO:
            return
        try:
            compensation.ensure_can_resolve(state, decision)
        except Refusal:
            return
        case = compensation.stuck_case(state)
        order = Resolution(reason="talked", by=BY, decision=decision)
        made = compensation.resolve(settlement, case, order, "resolve-1", self.now, CONFIG)
        self._call(fault, lambda: self.store.commit(made))

    @rule(which=WHICH, stale=STALE, fault=FAULTS)
    def recover(self, which: int, stale: bool, fault: Fault) -> None:
        state = self._seen(which, stale)
        takeover = recovery.take_over(state, self.now, CONFIG) if state else None
        if takeover:
            write = takeover.write
            self._call(fault, lambda: self.store.update(write))

    @rule(which=WHICH, stale=STALE, fault=FAULTS)
    def postpone(self, which: int, stale: bool, fault: Fault) -> None:
        state = self._seen(which, stale)
        if state and state.status is Status.COMPENSATING:
            made = recovery.postpone(state, self.now, CONFIG)
            self._call(fault, lambda: self.store.update(made))

    @rule(which=WHICH, execution=EXECUTIONS, fault=FAULTS)
    def assign_owner(self, which: int, execution: str, fault: Fault) -> None:
        made = reversal.assign_owner(SETTLEMENTS[which], execution)
        self._call(fault, lambda: self.store.update(made))

    @rule(data=st.data(), fault=FAULTS)
    def replay(self, data: st.DataObject, fault: Fault) -> None:
        """Repeat any earlier call as it was."""
        if self.calls:
            call = data.draw(st.sampled_from(range(len(self.calls))))
            self._call(fault, self.calls[call], kept=False)

    @invariant()
    def all_adds_up(self) -> None:
        assert_all_add_up(self.table.items.values())

    # Helpers.

    def _call(self, fault: Fault, call: Callable[[], object], *, kept: bool = True) -> object:
        """Make a call under a fault, and return its outcome. A refused call has written nothing."""
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

    def _state(self, which: int) -> SettlementState | None:
        return self.store.settlement(SETTLEMENTS[which].key)

    def _seen(self, which: int, stale: bool) -> SettlementState | None:
        """Return the settlement's state, or the one from before the last change that a call of this found."""
        if stale:
            return self.before.get(which)
        state = self._state(which)
        if state and state != self.latest.get(which):
            self.before[which] = self.latest.get(which, state)
            self.latest[which] = state
        return state


def outcome_of(call: Callable[[], object]) -> object:
    """Return the result of a call, or the refusal that it raises; any other exception is a fault of ours."""
    try:
        return call()
    except (Refusal, StoreUnavailable, KycUnavailable, AlreadyApplied) as refusal:
        return refusal


class _Unchanged:
    """Checks that the rows are the same before and after."""

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
