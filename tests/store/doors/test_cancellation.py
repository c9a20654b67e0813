"""A cancellation races the hold, the verdict, an order and another cancellation.

Changing the amount means cancelling, then starting under a new key.
"""

from collections.abc import Callable
from functools import partial
from itertools import permutations
from typing import Any

import pytest

from settlement.core.model.errors import (
    NotCancellable,
    NotReversible,
    SequenceChanged,
    SettlementError,
    StepFenced,
)
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status, Step
from tests.store.doors.cancelling import cancel
from tests.store.rivals import at_once, callers
from tests.store.rows import WEBHOOK, in_review, take_over, webhook
from tests.world.environment import NOW
from tests.world.saga import STALLED, Saga, outcome_of

ROUNDS = range(8)

FIRST, CHANGED = 4820, 3000
NEW_KEY = "order-2026-000102"


def charge(saga: Saga) -> Any:
    return saga.commit(Step.HOLD)


def change_amount(saga: Saga) -> Any:
    """Cancel the payment, then hold the new amount under a new key."""
    cancel(saga)
    changed = saga.asking(key=NEW_KEY, amount=CHANGED)
    changed.claim()
    return changed.commit(Step.HOLD)


def is_charged_once(saga: Saga, charged: Any, changed: Any) -> None:
    """Check that exactly one amount is held, and that the loser gets the refusal."""
    is_changed = not isinstance(changed, SettlementError)
    assert type(charged if is_changed else changed) is (StepFenced if is_changed else NotCancellable)
    assert saga.state().status is (Status.REJECTED if is_changed else Status.PROCESSING)
    assert saga.row()["escrow"] == (0 if is_changed else FIRST)
    balance = saga.ledger.rows()[0]["available"]
    assert balance == 10_000 - (CHANGED if is_changed else FIRST)
    saga.books()


@pytest.fixture
def claimed(saga: Saga) -> Saga:
    saga.fund()
    saga.claim()
    return saga


@pytest.mark.parametrize("order", [*permutations((charge, change_amount))], ids=["charge", "change"])
def test_a_charge_and_a_change_of_amount_never_both_take(
    claimed: Saga, order: tuple[Callable[[Saga], Any], ...]
) -> None:
    answers = {act: outcome_of(partial(act, claimed)) for act in order}

    is_charged_once(claimed, answers[charge], answers[change_amount])
    assert isinstance(answers[order[1]], SettlementError)


@pytest.mark.parametrize("engine", ["server"])
@pytest.mark.parametrize("number", ROUNDS)
def test_a_concurrent_charge_and_amount_change_never_both_take(claimed: Saga, number: int) -> None:
    one, other = callers(claimed, 2)

    charged, changed = at_once([partial(charge, one), partial(change_amount, other)])

    is_charged_once(claimed, charged, changed)


@pytest.mark.parametrize("engine", ["server"])
@pytest.mark.parametrize("number", ROUNDS)
def test_a_concurrent_verdict_order_and_cancellations_have_one_winner(saga: Saga, number: int) -> None:
    in_review(saga)
    rivals = callers(saga, 5)

    verdict, ordered, *cancelled = at_once(
        [
            partial(webhook, rivals[0]),
            partial(rivals[1].order, STALLED),
            *(partial(cancel, rival, 3 if rival is rivals[2] else None, WEBHOOK) for rival in rivals[2:]),
        ]
    )

    state = saga.state()
    if state.is_cancelled:
        assert {type(one) for one in cancelled} == {SettlementState}
        assert (type(verdict), type(ordered)) == (StepFenced, NotReversible)
        saga.reverse(Step.HOLD)
        assert saga.state().status is Status.COMPENSATED
    else:
        assert {type(one) for one in cancelled} <= {NotCancellable, SequenceChanged}
        assert (verdict is None) or state.status is Status.COMPENSATING
    saga.books()


def test_a_cancelled_review_is_due_at_once_for_one_takeover(saga: Saga) -> None:
    in_review(saga)
    seen = cancel(saga, now=WEBHOOK)

    taken = take_over(saga, now=WEBHOOK)

    assert (seen.listed_at, taken.owner_epoch) == (seen.in_flight_since, seen.owner_epoch + 1)
    with saga.writes_nothing(), pytest.raises(StepFenced):
        take_over(saga, seen, now=WEBHOOK)


@pytest.mark.parametrize("seen", [0, 2, 4])
def test_a_cancellation_by_another_sequence_writes_nothing(saga: Saga, seen: int) -> None:
    in_review(saga)

    with saga.writes_nothing(), pytest.raises(SequenceChanged):
        cancel(saga, seen, now=NOW)
