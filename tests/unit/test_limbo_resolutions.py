from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.core.model.errors import ResolutionRefused, StepFenced
from settlement.core.model.orders import Decision
from settlement.core.model.settlement import Settlement
from settlement.core.model.status import Status, Step
from settlement.core.model.timestamps import timestamp
from settlement.core.policy import compensation
from tests.unit import books
from tests.unit.books import SETTLEMENTS, STUCK, UNMOVED, entries, moved
from tests.world.saga import COMPLETE, DECIDED, RETRY, WRITE_OFF, Saga

ACCEPTED = [(last, step) for last, step in STUCK if step is not Step.HOLD]
"""The cases that a person can *complete*: the payee or the fees keep the amount."""


def released() -> Saga:
    """Return a settlement in LIMBO whose payee cannot return the net amount."""
    return books.stuck(Step.RELEASE, Step.RELEASE)


# The money


@given(settlement=SETTLEMENTS, where=st.sampled_from(STUCK))
def test_a_retry_moves_nothing_and_the_reversal_completes(
    settlement: Settlement, where: tuple[Step, Step]
) -> None:
    saga = books.stuck(*where, settlement)
    before = moved(saga)

    saga.resolve(RETRY)

    assert moved(saga) == before
    saga.unwind()
    assert (moved(saga), saga.state().status) == ({}, Status.COMPENSATED)


@given(settlement=SETTLEMENTS, where=st.sampled_from(ACCEPTED))
def test_a_write_off_repays_the_payer_at_our_cost(settlement: Settlement, where: tuple[Step, Step]) -> None:
    saga = books.stuck(*where, settlement)
    amount, keeper = {Step.FEE: (settlement.fee, "fees:EUR"), Step.RELEASE: (settlement.net, "bob")}[where[1]]

    saga.resolve(WRITE_OFF)

    moved(saga)
    saga.unwind()
    assert moved(saga) == ({"losses:EUR": -amount, keeper: amount} if amount else {})
    assert (saga.state().status, saga.state().escrow) == (Status.COMPENSATED, 0)
    assert where[1].reversal not in entries(saga)


@given(settlement=SETTLEMENTS, where=st.sampled_from([*ACCEPTED, (Step.RELEASE, Step.FEE)]))
def test_completing_gives_the_balances_of_a_settled_payment(
    settlement: Settlement, where: tuple[Step, Step]
) -> None:
    saga = books.stuck(*where, settlement)

    saga.resolve(COMPLETE)

    expected = {"alice": -settlement.amount, "bob": settlement.net, "fees:EUR": settlement.fee}
    assert moved(saga) == {account: change for account, change in expected.items() if change}
    state = saga.state()
    assert (state.status, state.escrow, state.finished_at) == (Status.SETTLED, 0, timestamp(DECIDED))
    assert (state.failure, state.listed_at) == (None, None)


# Decisions that do not fit

COVERS_NOTHING = "decision: the escrow lacks nothing that could be covered; use retry"
ACCEPTS_NOTHING = "decision: there is no release left that could be accepted; use retry"


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.LIMBO])
def test_a_settlement_outside_limbo_cannot_be_decided(status: Status) -> None:
    state = replace(released().state(), status=status)

    for decision in Decision:
        with pytest.raises(StepFenced, match=f"^resolve: the settlement is {status}, not in LIMBO$"):
            compensation.ensure_can_resolve(state, decision)


@pytest.mark.parametrize(("last", "step"), [*UNMOVED, *STUCK])
def test_an_impossible_decision_is_refused_with_the_alternative(last: Step | None, step: Step) -> None:
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
