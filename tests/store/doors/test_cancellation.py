"""A cancellation races the hold, the verdict, an order and another cancellation.

Changing the amount means cancelling, then starting under a new key.
"""

from functools import partial
from itertools import permutations
from typing import Any

import pytest

from settlement.core.model.errors import NotCancellable, SettlementError, StepFenced
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status, Step
from tests.store.doors.cancelling import cancel
from tests.store.rivals import Act, Start, assert_one_order
from tests.store.rows import WEBHOOK, in_review, take_over, webhook
from tests.world.saga import STALLED, Saga, outcome_of

FIRST, CHANGED = 4820, 3000
NEW_KEY = "order-2026-000102"


def charge(saga: Saga, seen: SettlementState | None = None) -> Any:
    return saga.commit(Step.HOLD)


def change_amount(saga: Saga, seen: SettlementState | None = None) -> Any:
    """Cancel the payment, then hold the new amount under a new key."""
    cancel(saga)
    changed = saga.asking(key=NEW_KEY, amount=CHANGED)
    changed.claim()
    return changed.commit(Step.HOLD)


@pytest.mark.parametrize("order", [*permutations((charge, change_amount))], ids=["charge", "change"])
def test_a_charge_and_an_amount_change_never_both_succeed(saga: Saga, order: tuple[Act, ...]) -> None:
    saga.reach(None)

    answers = {act: outcome_of(partial(act, saga)) for act in order}

    is_changed = order[0] is change_amount
    assert not isinstance(answers[order[0]], SettlementError)
    assert type(answers[order[1]]) is (StepFenced if is_changed else NotCancellable)
    assert saga.state().status is (Status.REJECTED if is_changed else Status.PROCESSING)
    assert saga.row()["escrow"] == (0 if is_changed else FIRST)
    assert saga.books()[0]["available"] == 10_000 - (CHANGED if is_changed else FIRST)


RACES: dict[str, tuple[Start, list[Act]]] = {
    "a charge and a change of amount": (lambda saga: saga.reach(None), [charge, change_amount]),
    "a verdict, an order and cancellations": (
        in_review,
        [
            lambda saga, seen: webhook(saga),
            lambda saga, seen: saga.order(STALLED),
            lambda saga, seen: cancel(saga, now=WEBHOOK),
            lambda saga, seen: cancel(saga, 3, WEBHOOK),
        ],
    ),
}


@pytest.mark.parametrize("engine", ["server"])
@pytest.mark.parametrize("_round", range(4))
@pytest.mark.parametrize(("start", "acts"), RACES.values(), ids=RACES)
def test_concurrent_calls_end_as_if_executed_one_by_one(
    saga: Saga, start: Start, acts: list[Act], _round: int
) -> None:
    assert_one_order(saga, start, acts)


def test_a_cancelled_review_is_due_at_once_for_one_takeover(saga: Saga) -> None:
    in_review(saga)
    seen = cancel(saga, now=WEBHOOK)

    taken = take_over(saga, now=WEBHOOK)

    assert (seen.listed_at, taken.owner_epoch) == (seen.in_flight_since, seen.owner_epoch + 1)
    with saga.writes_nothing(), pytest.raises(StepFenced):
        take_over(saga, seen, now=WEBHOOK)
