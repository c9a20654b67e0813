"""Tests that two executions of a settlement, at all interleavings of their steps, settle it once."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import combinations

import pytest

from settlement.core.ledger import entries as ledger_entries
from settlement.core.ledger import forward, kyc_review, reversal
from settlement.core.model.errors import StepFenced
from settlement.core.model.state import SettlementState
from settlement.core.model.status import REVERSIBLE, Status, Step
from settlement.core.policy import recovery
from settlement.core.policy.steps import is_replay
from tests.unit import books
from tests.unit.books import entries, moved
from tests.unit.vectors import CONFIG, EXECUTION, FAILURE, REVERSER, SETTLEMENT, VERDICT
from tests.world.constants import NONCE
from tests.world.environment import NOW
from tests.world.saga import Saga

Act = Callable[[Saga], object]
LATE = NOW + timedelta(seconds=CONFIG.recover_after_seconds)
RESUMER = f"{SETTLEMENT.key}-r1-{NONCE}"


def claim_and_hold(saga: Saga, owner: str) -> SettlementState:
    return saga.claim_and_hold(owner=owner) or saga.state()


def claim(saga: Saga, owner: str) -> SettlementState:
    """Claim the key without a hold, as the start queue does."""
    return saga.claim(owner=owner)


def commit(step: Step) -> Act:
    return lambda saga: saga.commit(step)


def put_evidence(saga: Saga) -> object:
    evidence = ledger_entries.evidence(SETTLEMENT, Step.VERIFY, VERDICT.evidence(), NOW)
    return saga.ledger.store.put(evidence)


def record_verdict(saga: Saga) -> object:
    return saga.ledger.store.update(kyc_review.record_verdict(SETTLEMENT, VERDICT, NOW))


AFTER_THE_HOLD = [put_evidence, record_verdict, commit(Step.RELEASE), commit(Step.FEE)]
"""Writes of the forward steps after the hold, two of them for a verdict."""


def interleavings(first: list[Act], second: list[Act]) -> Iterator[list[Act]]:
    for places in combinations(range(len(first) + len(second)), len(first)):
        one, other = iter(first), iter(second)
        yield [next(one if place in places else other) for place in range(len(first) + len(second))]


def run(owner: str, claims: Callable[[Saga, str], SettlementState] = claim_and_hold) -> list[Act]:
    """Return an execution's acts, each one write: claim with hold, then the steps.

    The steps run only if the execution is the owner after its claim.
    """
    found: list[SettlementState] = []

    def hold(saga: Saga) -> None:
        if is_owner() and Step.HOLD not in found[-1].steps:  # the queue has claimed the key
            saga.commit(Step.HOLD)

    def is_owner() -> bool:
        return not is_replay(found[-1], owner)

    def later(act: Act) -> Act:
        return lambda saga: is_owner() and act(saga)

    return [lambda saga: found.append(claims(saga, owner)), hold, *map(later, AFTER_THE_HOLD)]


def take_over(saga: Saga) -> None:
    """Let recovery change the owner, unless the settlement is finished."""
    if taken := recovery.take_over(saga.state(), LATE, CONFIG, NONCE):
        assert taken.execution == RESUMER
        saga.ledger.store.update(taken.write)


def assert_settled_once(saga: Saga) -> None:
    assert moved(saga) == {"alice": -4820, "bob": 4772, "fees:EUR": 48}
    assert saga.state().status is Status.SETTLED
    assert entries(saga).keys() == set(Step)


@pytest.mark.parametrize("other", [EXECUTION, "another"])
@pytest.mark.parametrize(
    "queued", [pytest.param(False, id="at once"), pytest.param(True, id="queued", marks=pytest.mark.long)]
)
def test_two_executions_settle_once_at_every_interleaving(other: str, queued: bool) -> None:
    """Two executions of one name both run, as in asynchronous Express; else only the owner runs."""
    for acts in interleavings(run(EXECUTION), run(other)):
        saga = books.fresh()
        saga.fund()
        if queued:
            saga.claim(owner=EXECUTION)
        for act in acts:
            act(saga)
        assert_settled_once(saga)


def test_a_slow_execution_and_a_takeover_settle_once() -> None:
    for acts in interleavings([commit(Step.HOLD), *AFTER_THE_HOLD], [take_over, *run(RESUMER)]):
        saga = books.reached(None)
        for act in acts:
            act(saga)
        assert_settled_once(saga)


def compensate(owner: str | None) -> list[Act]:
    """Return a compensation's acts: look at the key, fence the steps off, and reverse each one.

    The first act rejects an unclaimed key, and the fence rejects a settlement without a hold.
    """
    found: list[SettlementState] = []

    def look(saga: Saga) -> None:
        tombstone = reversal.tombstone(SETTLEMENT, REVERSER, FAILURE, NOW)
        found.append(saga.ledger.store.claim(tombstone))

    def fence(saga: Saga) -> None:
        if found[-1].status is Status.PROCESSING and not found[-1].steps:
            with suppress(StepFenced):
                saga.ledger.store.update(forward.reject(SETTLEMENT, FAILURE, NOW, owner=owner))
                return
        saga.begin(owner=owner)

    def reverse(step: Step) -> Act:
        return lambda saga: is_due(step, saga.state()) and saga.reverse(step)

    def is_due(step: Step, state: SettlementState) -> bool:
        return state.status is Status.COMPENSATING and step in state.unreversed

    return [look, fence, *map(reverse, REVERSIBLE)]


@pytest.mark.parametrize("owner", [EXECUTION, None])
@pytest.mark.parametrize("claims", [claim_and_hold, claim], ids=["at once", "queued"])
def test_an_execution_and_a_reversal_never_both_take_effect(
    claims: Callable[[Saga, str], SettlementState], owner: str | None
) -> None:
    """An execution's own reversal reverses no release."""

    def late(act: Act) -> Act:
        """Ignore that a call is fenced, so the execution goes on and makes late calls."""

        def acting(saga: Saga) -> None:
            with suppress(StepFenced):
                act(saga)

        return acting

    ends = set()
    for acts in interleavings([*map(late, run(EXECUTION, claims))], compensate(owner)):
        saga = books.fresh()
        saga.fund()
        for act in acts:
            act(saga)
        state, changes = saga.state(), moved(saga)
        ends.add(state.status)
        assert state.escrow == 0
        assert bool(changes) == (state.status is Status.SETTLED)
        assert (state.status is Status.REJECTED) == (not state.steps)
        if owner and state.is_released:
            assert state.status is Status.SETTLED
    assert ends == {Status.SETTLED, Status.COMPENSATED, Status.REJECTED}
