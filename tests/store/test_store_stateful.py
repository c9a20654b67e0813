"""The store under Hypothesis sequences of calls; the rules hold at each commit.

A call may repeat an earlier one, have other content, use an old row, or meet a conflict, throttling or an
answer lost after its commit. `STORE_SEQUENCES` sets the number of sequences.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError, ReadTimeoutError
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from settlement.core import telemetry
from settlement.core.ledger import entries, forward, kyc_review, limbo, reversal
from settlement.core.ledger.kyc_review import WebhookEvent
from settlement.core.model.errors import IdempotencyConflict, Refusal, StoreUnavailable
from settlement.core.model.orders import Decision, Resolution, Reversal
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.status import REVERSIBLE, Status, Step
from settlement.core.model.verdict import Verdict
from settlement.core.policy import compensation, recovery, steps
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import from_wire
from settlement.proof import Look, reconcile
from tests.store.lawful import assert_lawful
from tests.world.books import assert_conserved
from tests.world.constants import NONCE
from tests.world.environment import NOW
from tests.world.journal import assert_recorded
from tests.world.memory_dynamodb import MemoryDynamoDb, error
from tests.world.openings import opening
from tests.world.provider import APPROVED, IN_REVIEW, REJECTED
from tests.world.saga import FAILURE, STUCK, outcome_of, step_transaction


class Fault(StrEnum):
    NONE = "none"
    CONFLICT = "a conflict once"
    CONFLICTS = "a conflict each time"
    THROTTLED = "throttled"
    UNREACHED = "not reached"
    LOST = "applied, and the answer lost"


BALANCES = {"alice": 7_500, "bob": 500, "carol": 99_998_000}
"""Alice and Bob cannot afford all settlements at once; Carol is near the balance limit."""

SETTLEMENTS = [
    Settlement(
        key=f"order-2026-00020{number}", payer=payer, payee=payee, amount=amount, currency="EUR", fee=fee
    )
    for number, (payer, payee, amount, fee) in enumerate(
        [("alice", "bob", 4820, 48), ("bob", "alice", 3000, 0), ("alice", "carol", 2500, 25)]
    )
]
CONFIG = StageConfig.from_json(os.environ["STAGE_CONFIG"])
SEQUENCES = int(os.environ.get("STORE_SEQUENCES", "25"))
BY = "arn:aws:sts::1:assumed-role/desk/kim"
FAULTS = st.sampled_from([Fault.NONE] * 20 + list(Fault) + [Fault.LOST] * 3)
WHICH = st.sampled_from(range(len(SETTLEMENTS)))
EXECUTIONS = st.sampled_from(["execution-1", "execution-2"])
STAGES = st.sampled_from([0, *range(len(Step) + 1), *range(3, 8), 6, 7, 7])
"""Initial progress of a settlement: steps, then their reversal by an order, then LIMBO."""

STALE = st.sampled_from([False, False, True])


class FaultyTable(MemoryDynamoDb):
    fault = Fault.NONE

    def _write_one(self, write: Mapping[str, Any]) -> dict[str, Any]:
        conflict = error("update_item", "TransactionConflictException", "Transaction is ongoing for the item")
        return self._met(partial(super()._write_one, write), conflict)

    def transact_write_items(self, **parameters: Any) -> dict[str, Any]:
        writes = [write for item in parameters["TransactItems"] for write in item.values()]
        reasons = [{"Code": "TransactionConflict"}, *self.reasons(writes)[1:]]
        code = "TransactionCanceledException"
        conflict = error("transact_write_items", code, "cancelled", CancellationReasons=reasons)
        return self._met(partial(super().transact_write_items, **parameters), conflict)

    def _met(self, send: Callable[[], dict[str, Any]], conflict: ClientError) -> dict[str, Any]:
        if self.fault in (Fault.CONFLICT, Fault.CONFLICTS):
            if self.fault is Fault.CONFLICT:
                self.fault = Fault.NONE
            raise conflict
        if self.fault is Fault.THROTTLED:
            raise error("any", "ThrottlingException", "Rate exceeded")
        if self.fault is Fault.UNREACHED:
            raise ConnectTimeoutError(endpoint_url="https://dynamodb.invalid")
        if self.fault is Fault.LOST:
            with suppress(ClientError):  # the answer of a refusal is lost as well
                send()
            raise ReadTimeoutError(endpoint_url="https://dynamodb.invalid")
        return send()


NO_FEE_TO_REVERSE = {
    f"SETTLEMENT#{one.key}: is COMPENSATED, but of ['fee', 'hold', 'release', 'verify'] only"
    " ['hold', 'release'] is reversed"
    for one in SETTLEMENTS
    if not one.fee
}
"""Out-of-order calls may leave out the reversal of a zero fee. No machine does that."""


class Settlements(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = FaultyTable(committed=assert_lawful)
        self.store = Store(self.table, "table", pause=lambda failed_tries: None)
        self.now, self.events = NOW, 0
        self.calls: list[Callable[[], object]] = []
        self.latest: dict[int, SettlementState] = {}
        self.before: dict[int, SettlementState] = {}
        for account, available in BALANCES.items():
            self.store.transact(opening(account, available, "EUR", NOW))

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

    @rule(which=WHICH, owner=EXECUTIONS, fault=FAULTS)
    def claim_and_hold(self, which: int, owner: str, fault: Fault) -> None:
        made = steps.claim_and_hold(SETTLEMENTS[which], owner, self.now, CONFIG)
        self._call(fault, lambda: self.store.transact(made.writes))

    @rule(which=WHICH, times=st.integers(1, 5), fault=FAULTS)
    def continue_it(self, which: int, times: int, fault: Fault) -> None:
        """Call the next steps or reversals, like the machines."""
        for _ in range(times):
            state = self._state(which)
            if state is None:
                self.claim(which, "execution-1", fault)
            elif state.status is Status.PROCESSING and len(state.steps) < len(Step):
                self.commit(which, list(Step)[len(state.steps)], fault)
            elif state.status is Status.COMPENSATING and state.steps:
                self.reverse(which, state.unreversed[0], stale=False, fault=fault)
            elif state.status is Status.COMPENSATING:
                self.finish_unheld(which, fault)

    @rule(which=WHICH, step=st.sampled_from(Step), fault=FAULTS, behind=st.sampled_from([0, 0, 0, 900]))
    def commit(self, which: int, step: Step, fault: Fault, behind: int = 0) -> None:
        """Commit a step, with a clock `behind` seconds late."""
        now = self.now - timedelta(seconds=behind)
        if step is Step.VERIFY:
            self._verify(which, APPROVED, now, fault, fault)
            return
        made = step_transaction(step, SETTLEMENTS[which], CONFIG, now)
        self._call(fault, lambda: self.store.commit(made))

    @rule(which=WHICH, verdict=st.sampled_from([APPROVED, REJECTED]), fault=FAULTS, later=FAULTS)
    def verify(self, which: int, verdict: Verdict, fault: Fault, later: Fault) -> None:
        """Record a verdict, with separate faults for its evidence and its row."""
        self._verify(which, verdict, self.now, fault, later)

    @rule(which=WHICH, verdict=st.sampled_from([APPROVED, REJECTED]))
    def die_between_evidence_and_row(self, which: int, verdict: Verdict) -> None:
        self._verify(which, verdict, self.now, Fault.NONE, None)

    def _verify(self, which: int, verdict: Verdict, now: datetime, fault: Fault, later: Fault | None) -> None:
        """Put the evidence and, unless that failed or `later` is None, record its verdict on the row.

        VerifyKyc does this after seeing a row of the same request, which may have changed since.
        """
        settlement = SETTLEMENTS[which]
        if self._state(which) is None:
            return
        made = entries.evidence(settlement, Step.VERIFY, verdict.evidence(), now)
        on_record = self._call(fault, lambda: self.store.put(made))
        if later is not None and isinstance(on_record, dict):
            second = kyc_review.record_verdict(settlement, Verdict.on_record(on_record), now)
            self._call(later, lambda: self.store.update(second))

    @rule(which=WHICH, step=st.sampled_from(Step), cents=st.sampled_from([1, -1]), fault=FAULTS)
    def commit_other_content(self, which: int, step: Step, cents: int, fault: Fault) -> None:
        other = replace(SETTLEMENTS[which], amount=SETTLEMENTS[which].amount + cents)
        before = dict(self.table.items)
        refusal = self._call(fault, self._commit_of(other, step))
        assert self.table.items == before
        if self._state(which) and not isinstance(refusal, StoreUnavailable):
            assert isinstance(refusal, IdempotencyConflict)

    def _commit_of(self, other: Settlement, step: Step) -> Callable[[], object]:
        """Return the call of a step. A verdict has no evidence, as VerifyKyc compares the requests first."""
        if step is Step.VERIFY:
            verdict = kyc_review.record_verdict(other, APPROVED, self.now)
            return lambda: self.store.update(verdict)
        made = step_transaction(step, other, CONFIG, self.now)
        return lambda: self.store.commit(made)

    @rule(which=WHICH, owner=st.none() | EXECUTIONS, fault=FAULTS)
    def reject(self, which: int, owner: str | None, fault: Fault) -> None:
        failure = FAILURE | {"step": "hold"}
        made = forward.reject(SETTLEMENTS[which], failure, self.now, owner=owner)
        self._call(fault, lambda: self.store.update(made))

    @rule(which=WHICH, owner=EXECUTIONS, fault=FAULTS, rarely=st.sampled_from([False] * 5 + [True]))
    def leave_a_tombstone(self, which: int, owner: str, fault: Fault, rarely: bool) -> None:
        """Refuse an unclaimed key permanently; only rarely, because it ends the sequence."""
        if rarely or self._state(which):
            made = reversal.tombstone(SETTLEMENTS[which], owner, FAILURE | {"step": "hold"}, self.now)
            self._call(fault, lambda: self.store.claim(made))

    @rule(which=WHICH, fault=FAULTS)
    def leave_to_a_review(self, which: int, fault: Fault) -> None:
        until = self.now + timedelta(days=1)
        made = kyc_review.begin_review(SETTLEMENTS[which], IN_REVIEW, until, self.now)
        self._call(fault, lambda: self.store.update(made))

    @rule(which=WHICH, verdict=st.sampled_from([APPROVED, REJECTED]), again=STALE, fault=FAULTS)
    def hear_a_verdict(self, which: int, verdict: Any, again: bool, fault: Fault) -> None:
        self.events += not again
        event = WebhookEvent(id=f"evt-{self.events}", digest=f"{self.events:064x}")
        owner = f"{SETTLEMENTS[which].key}-decided"
        verdict = replace(verdict, provider="webhook")
        made = steps.record_webhook_verdict(SETTLEMENTS[which], verdict, event, owner, self.now, CONFIG)
        self._call(fault, lambda: self.store.transact(made))

    @rule(which=WHICH, owner=st.none() | EXECUTIONS, fault=FAULTS)
    def begin(self, which: int, owner: str | None, fault: Fault) -> None:
        made = reversal.begin(
            SETTLEMENTS[which], FAILURE | {"step": "hold"}, owner=owner, execution="compensate-1"
        )
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
            made = compensation.reverse_step(SETTLEMENTS[which], step, self.now)
            self._call(fault, lambda: self.store.commit(made))

    @rule(which=WHICH, fault=FAULTS)
    def finish_unheld(self, which: int, fault: Fault) -> None:
        made = reversal.finish_unheld(SETTLEMENTS[which], self.now)
        self._call(fault, lambda: self.store.update(made))

    @rule(which=WHICH, step=st.sampled_from(REVERSIBLE), stale=STALE, fault=FAULTS)
    def enter_limbo(self, which: int, step: Step, stale: bool, fault: Fault) -> None:
        state = self._seen(which, stale)
        if state and state.status is Status.COMPENSATING:
            case = compensation.case_of(state, step)
            failure = STUCK | {"step": step.reversal}
            made = compensation.enter_limbo(SETTLEMENTS[which], case, failure, self.now)
            self._call(fault, lambda: self.store.commit(made))

    @rule(which=WHICH, stale=STALE, fault=FAULTS)
    def wait_for_a_decision(self, which: int, stale: bool, fault: Fault) -> None:
        state = self._seen(which, stale)
        if state and state.status is Status.LIMBO:
            case, token = state.case_number, f"token-{len(self.calls)}"
            made = limbo.await_decision(SETTLEMENTS[which], case, token, "arn:execution-1")
            self._call(fault, lambda: self.store.put(made))

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
        order = Resolution(reason="talked", by=BY, decision=decision, case=case.number)
        made = compensation.resolve(settlement, case, order, "resolve-1", self.now, CONFIG)
        self._call(fault, lambda: self.store.commit(made))

    @rule(which=WHICH, stale=STALE, fault=FAULTS)
    def recover(self, which: int, stale: bool, fault: Fault) -> None:
        state = self._seen(which, stale)
        takeover = recovery.take_over(state, self.now, CONFIG, NONCE) if state else None
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
        if self.calls:
            call = data.draw(st.sampled_from(range(len(self.calls))))
            self._call(fault, self.calls[call], kept=False)

    @invariant()
    def all_adds_up(self) -> None:
        found = [from_wire(item) for item in self.table.items.values()]
        assert_conserved(found)
        assert_recorded(found)
        findings = reconcile(found, lambda row: Look.DISAGREES)
        other = [fault for fault in findings.faults if fault not in NO_FEE_TO_REVERSE]
        assert replace(findings, faults=other).conserved, (other, findings.unproven, findings.totals)

    # Helpers.

    def _call(self, fault: Fault, call: Callable[[], object], *, kept: bool = True) -> object:
        """Make a call under a fault and return its outcome. Check that a refused call wrote nothing."""
        if kept:
            self.calls.append(call)
        before, self.table.fault = dict(self.table.items), fault
        outcome = outcome_of(call)
        self.table.fault = Fault.NONE
        if isinstance(outcome, Exception) and fault is not Fault.LOST:
            assert self.table.items == before, f"written, and refused: {outcome!r}"
        return outcome

    def _state(self, which: int) -> SettlementState | None:
        return self.store.settlement(SETTLEMENTS[which].key)

    def _seen(self, which: int, stale: bool) -> SettlementState | None:
        """Return the settlement's state or, if `stale`, the one before its last observed change."""
        if stale:
            return self.before.get(which)
        state = self._state(which)
        if state and state != self.latest.get(which):
            self.before[which] = self.latest.get(which, state)
            self.latest[which] = state
        return state


@pytest.mark.parametrize("sequences", [SEQUENCES, pytest.param(500, marks=pytest.mark.long)])
def test_calls_in_any_order_with_faults_keep_every_rule(
    monkeypatch: pytest.MonkeyPatch, sequences: int
) -> None:
    monkeypatch.setattr(telemetry, "called", lambda operation, consumed: None)
    run_state_machine_as_test(
        Settlements,
        settings=settings(
            max_examples=sequences,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
