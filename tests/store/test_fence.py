"""The settlement's row is the fence of every step: its conditions, and a refusal that writes nothing."""

from datetime import datetime, timedelta

import pytest

from settlement.ledger import keys
from settlement.model.errors import DeadlineExceeded, IdempotencyConflict, StepFenced
from settlement.model.status import Status, Step
from tests.conftest import NOW
from tests.store.saga import DEADLINE, OTHER_STATUSES, Saga

WITH_DEADLINE = [Step.HOLD, Step.VERIFY, Step.RELEASE]
OUT_OF_ORDER = [
    (committed, step)
    for position, committed in enumerate((None, *Step))
    for step in list(Step)[position + 1 :]
]


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("status", OTHER_STATUSES)
def test_no_step_commits_unless_the_settlement_is_processing(saga: Saga, step: Step, status: Status) -> None:
    saga.before(step)
    saga.alter(status=status)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=f"^{step}: the settlement is {status} "):
        saga.commit(step)


@pytest.mark.parametrize("step", Step)
def test_no_step_commits_for_a_key_that_was_never_claimed(saga: Saga, step: Step) -> None:
    saga.ledger.open("alice", 10_000)
    saga.ledger.open("bob", 500)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=f"^{step}: .* was never claimed$"):
        saga.commit(step)


@pytest.mark.parametrize("step", Step)
def test_no_step_commits_with_other_content_than_the_key_was_claimed_with(saga: Saga, step: Step) -> None:
    saga.before(step)

    with saga.writes_nothing(), pytest.raises(IdempotencyConflict):
        saga.asking(amount=4821).commit(step)


@pytest.mark.parametrize("status", OTHER_STATUSES)
def test_other_content_is_a_conflict_even_where_the_status_would_fence_the_step(
    saga: Saga, status: Status
) -> None:
    saga.start()
    saga.alter(status=status)

    with saga.writes_nothing(), pytest.raises(IdempotencyConflict):
        saga.asking(amount=4821).commit(Step.HOLD)


@pytest.mark.parametrize(("committed", "step"), OUT_OF_ORDER)
def test_no_step_commits_before_the_previous_one(saga: Saga, committed: Step | None, step: Step) -> None:
    if committed is None:
        saga.start()
    else:
        saga.after(committed)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=f"^{step}: "):
        saga.commit(step)


@pytest.mark.parametrize("step", Step)
def test_a_committed_step_never_moves_money_again_even_if_its_entry_is_lost(saga: Saga, step: Step) -> None:
    saga.after(step)
    saga.alter(status=Status.PROCESSING)
    saga.ledger.client.delete_item(
        TableName=saga.ledger.table_name,
        Key={name: {"S": text} for name, text in keys.entry(saga.settlement.key, step).items()},
    )

    with saga.writes_nothing(), pytest.raises(StepFenced, match=f"^{step}: "):
        saga.commit(step)


@pytest.mark.parametrize("step", WITH_DEADLINE)
@pytest.mark.parametrize(
    "late", [DEADLINE, DEADLINE + timedelta(milliseconds=1), DEADLINE + timedelta(days=400)]
)
def test_no_step_up_to_the_release_commits_at_the_deadline_or_after_it(
    saga: Saga, step: Step, late: datetime
) -> None:
    saga.before(step)

    with (
        saga.writes_nothing(),
        pytest.raises(DeadlineExceeded, match=f"^{step}: .* was 2026-11-20T12:15:00.123Z$"),
    ):
        saga.commit(step, late)


@pytest.mark.parametrize("step", WITH_DEADLINE)
def test_each_step_up_to_the_release_commits_until_just_before_the_deadline(saga: Saga, step: Step) -> None:
    saga.before(step)

    entry = saga.commit(step, DEADLINE - timedelta(milliseconds=1))

    assert entry["posted_at"] == "2026-11-20T12:15:00.122Z"
    assert step in saga.row()["steps"]


@pytest.mark.parametrize("now", [DEADLINE, DEADLINE + timedelta(days=400)])
def test_the_fee_has_no_deadline_since_the_payee_has_the_money_already(saga: Saga, now: datetime) -> None:
    saga.before(Step.FEE)

    saga.commit(Step.FEE, now)

    assert saga.row()["status"] == Status.SETTLED


def test_a_step_that_is_late_and_fenced_is_fenced(saga: Saga) -> None:
    saga.start()
    saga.alter(status=Status.COMPENSATING)

    with saga.writes_nothing(), pytest.raises(StepFenced):
        saga.commit(Step.HOLD, DEADLINE)


def test_the_fence_is_named_before_the_balance_when_both_refuse(saga: Saga) -> None:
    saga.start(payer=0)
    saga.alter(status=Status.REJECTED)

    with saga.writes_nothing(), pytest.raises(StepFenced):
        saga.commit(Step.HOLD, NOW)
