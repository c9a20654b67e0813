from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.core.ledger import keys
from settlement.core.ledger.transaction import StepTransaction
from settlement.core.model.errors import AccountInLimbo, ResolutionRefused, StepFenced
from settlement.core.model.orders import Decision, Resolution
from settlement.core.model.settlement import Settlement
from settlement.core.model.status import Status, Step
from settlement.core.model.timestamps import timestamp
from settlement.core.policy import compensation
from tests.unit import books
from tests.unit.books import SETTLEMENTS, STUCK, UNMOVED, entries, moved, unwind
from tests.unit.vectors import CONFIG, SETTLEMENT
from tests.world.saga import COMPLETE, DECIDED, FAILURE, RESOLVER, RETRY, WRITE_OFF, Saga
from tests.world.saga import STUCK as TOO_LITTLE

DECISIONS = [RETRY, WRITE_OFF, COMPLETE]
ACCEPTED = [(last, step) for last, step in STUCK if step is not Step.HOLD]
"""Cases with an amount that the payee, or the fees, may keep."""


def released() -> Saga:
    """Return a settlement in LIMBO whose payee cannot return the net amount."""
    return books.stuck(Step.RELEASE, Step.RELEASE)


def late(saga: Saga, decision: Resolution) -> StepTransaction:
    """Return a decision on the currently open case, to be committed later."""
    return compensation.resolve(SETTLEMENT, saga.case(), decision, RESOLVER, DECIDED, CONFIG)


# The money


@given(settlement=SETTLEMENTS, where=st.sampled_from(STUCK))
def test_a_retry_moves_nothing_and_goes_on_to_the_end(
    settlement: Settlement, where: tuple[Step, Step]
) -> None:
    saga = books.stuck(*where, settlement)
    before = moved(saga)

    saga.resolve(RETRY)

    assert moved(saga) == before
    unwind(saga)
    assert (moved(saga), saga.state().status) == ({}, Status.COMPENSATED)


@given(settlement=SETTLEMENTS, where=st.sampled_from(ACCEPTED))
def test_a_write_off_makes_the_payer_whole_at_our_cost(
    settlement: Settlement, where: tuple[Step, Step]
) -> None:
    saga = books.stuck(*where, settlement)
    amount, keeper = {Step.FEE: (settlement.fee, "fees:EUR"), Step.RELEASE: (settlement.net, "bob")}[where[1]]

    saga.resolve(WRITE_OFF)

    moved(saga)
    unwind(saga)
    assert moved(saga) == ({"losses:EUR": -amount, keeper: amount} if amount else {})
    assert (saga.state().status, saga.state().escrow) == (Status.COMPENSATED, 0)
    assert where[1].reversal not in entries(saga)


@given(settlement=SETTLEMENTS, where=st.sampled_from([*ACCEPTED, (Step.RELEASE, Step.FEE)]))
def test_a_completed_settlement_has_the_balances_of_a_settled_one(
    settlement: Settlement, where: tuple[Step, Step]
) -> None:
    saga = books.stuck(*where, settlement)

    saga.resolve(COMPLETE)

    expected = {"alice": -settlement.amount, "bob": settlement.net, "fees:EUR": settlement.fee}
    assert moved(saga) == {account: change for account, change in expected.items() if change}
    state = saga.state()
    assert (state.status, state.escrow, state.finished_at) == (Status.SETTLED, 0, timestamp(DECIDED))
    assert (state.failure, state.listed_at) == (None, None)


# The row and the account


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda decision: decision.decision.value)
def test_a_recorded_decision_has_its_person_reason_and_time(decision: Resolution) -> None:
    saga = released()
    saga.wait()
    assert saga.state().failure == TOO_LITTLE

    entry = saga.resolve(decision)

    state, decided_at = saga.state(), timestamp(DECIDED)
    assert entry.items() >= {"step": "resolve:1", "account": "bob", "posted_at": decided_at}.items()
    assert entry.items() >= decision.record().items()
    covered = {"covered": "release"} if decision is WRITE_OFF else {}
    assert state.resolution == decision.record() | {"decided_at": decided_at} | covered
    assert (state.resolutions, state.stuck_step) == (1, None)
    if decision is not COMPLETE:  # in flight again, with the failure for which it was reversed
        index = keys.in_flight_index(SETTLEMENT.key, "2026-11-20T13:00:30.123Z")
        assert index.items() <= saga.row().items()
        assert state.failure == state.reversed_for == FAILURE


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda decision: decision.decision.value)
@pytest.mark.parametrize("others", [0, 1])
def test_an_account_leaves_limbo_with_its_last_case_only(others: int, decision: Resolution) -> None:
    saga = released()
    bob = saga.ledger.row(keys.account("bob"))
    assert bob is not None
    saga.ledger.put(bob | {"limbo_cases": bob["limbo_cases"] + others})
    spending = saga.asking(key="order-2026-000102", payer="bob", payee="alice", amount=1, fee=0)
    spending.claim()
    with pytest.raises(AccountInLimbo):
        spending.commit(Step.HOLD)

    saga.resolve(decision)

    if others:
        with pytest.raises(AccountInLimbo):
            spending.commit(Step.HOLD)
    else:
        spending.commit(Step.HOLD)


# Once


@pytest.mark.parametrize("first", DECISIONS, ids=lambda decision: decision.decision.value)
@pytest.mark.parametrize("second", DECISIONS, ids=lambda decision: decision.decision.value)
def test_of_two_decisions_the_first_one_counts(first: Resolution, second: Resolution) -> None:
    saga = released()
    too_late = late(saga, second)
    saga.resolve(first)
    evidence = saga.ledger.store.evidence(SETTLEMENT.key, "resolve:1")

    with saga.writes_nothing():
        assert saga.ledger.store.commit(too_late) == evidence
    assert evidence
    assert first.is_on(evidence)


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda decision: decision.decision.value)
def test_a_decision_on_an_earlier_case_leaves_later_ones_unchanged(decision: Resolution) -> None:
    saga = released()
    too_late = late(saga, decision)
    saga.resolve(RETRY)
    saga.enter()

    with saga.writes_nothing():
        assert saga.ledger.store.commit(too_late)["decision"] == Decision.RETRY
        with pytest.raises(ResolutionRefused, match="moved on since it was looked at"):
            saga.ledger.store.transact(too_late.writes[1:])


def test_a_late_reversal_cannot_take_the_amount_written_off() -> None:
    saga = released()
    with saga.writes_nothing(), pytest.raises(StepFenced, match="is LIMBO"):
        saga.reverse(Step.RELEASE)
    saga.resolve(WRITE_OFF)

    late = compensation.reverse_step(SETTLEMENT, Step.RELEASE, DECIDED)

    with saga.writes_nothing():  # the slot of the reversal is taken: no money is left to take
        assert saga.ledger.store.commit(late) == saga.state()
    assert Step.RELEASE.reversal not in entries(saga)


# Decisions that do not fit

COVERS_NOTHING = "decision: the escrow lacks nothing that could be covered; use retry"
ACCEPTS_NOTHING = "decision: there is no release left that could be accepted; use retry"


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.LIMBO])
def test_a_settlement_out_of_limbo_has_nothing_to_decide(status: Status) -> None:
    state = replace(released().state(), status=status)

    for decision in Decision:
        with pytest.raises(StepFenced, match=f"^resolve: the settlement is {status}, not in LIMBO$"):
            compensation.ensure_can_resolve(state, decision)


@pytest.mark.parametrize(("last", "step"), [*UNMOVED, *STUCK])
def test_an_unfit_decision_is_refused_with_a_way_out(last: Step | None, step: Step) -> None:
    state, refused = books.stuck(last, step).state(), {}
    for decision in Decision:
        try:
            compensation.ensure_can_resolve(state, decision)
        except ResolutionRefused as refusal:
            refused[decision.value] = str(refusal)

    covers_nothing = step is Step.HOLD or step not in state.steps
    accepts_nothing = step is Step.HOLD or Step.RELEASE not in state.steps
    assert refused == {
        **({"write-off": COVERS_NOTHING} if covers_nothing else {}),
        **({"complete": ACCEPTS_NOTHING} if accepts_nothing else {}),
    }
