"""The rejection: a settlement is refused for good while nothing is held, and only then."""

from datetime import timedelta

import pytest

from settlement.model.errors import IdempotencyConflict, StepFenced
from settlement.model.status import Status, Step
from tests.store.saga import ALICE, BOB, DEADLINE, FINISHED, LATER, Saga, state_of

FAILURE = {"step": "hold", "error": "InsufficientFunds", "cause": "payer: the account has too little"}
REJECTED = FINISHED | {"status": "REJECTED", "failure": FAILURE, "finished_at": "2026-11-20T12:00:07.123Z"}


def test_a_settlement_is_rejected_with_its_failure_and_leaves_the_index(saga: Saga) -> None:
    saga.start()

    state = saga.reject(FAILURE, LATER)

    assert saga.ledger.rows() == [ALICE, BOB, REJECTED]
    assert state == state_of(REJECTED)


def test_a_settlement_is_rejected_after_its_deadline_too(saga: Saga) -> None:
    saga.start()

    state = saga.reject(FAILURE, DEADLINE + timedelta(days=1))

    assert state.status is Status.REJECTED


def test_a_second_rejection_changes_nothing_and_returns_the_first_failure(saga: Saga) -> None:
    saga.start()
    saga.reject(FAILURE, LATER)

    with saga.writes_nothing():
        state = saga.reject({"step": "hold", "error": "AccountInLimbo", "cause": ""}, DEADLINE)

    assert state == state_of(REJECTED)


@pytest.mark.parametrize("status", [Status.SETTLED, Status.COMPENSATING, Status.COMPENSATED, Status.LIMBO])
def test_no_settlement_is_rejected_that_is_past_processing(saga: Saga, status: Status) -> None:
    saga.start()
    saga.alter(status=status)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=f"^reject: the settlement is {status} "):
        saga.reject(FAILURE)


@pytest.mark.parametrize("step", Step)
def test_no_settlement_is_rejected_once_something_is_held(saga: Saga, step: Step) -> None:
    saga.after(step)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^reject: .* \[.*hold.*\] committed$"):
        saga.reject(FAILURE)


@pytest.mark.parametrize("status", Status)
def test_no_settlement_is_rejected_by_a_request_with_other_content(saga: Saga, status: Status) -> None:
    saga.start()
    saga.alter(status=status)

    with saga.writes_nothing(), pytest.raises(IdempotencyConflict):
        saga.asking(amount=4821).reject(FAILURE)


def test_an_unclaimed_key_is_not_rejected(saga: Saga) -> None:
    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"was never claimed$"):
        saga.reject(FAILURE)
