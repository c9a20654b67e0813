"""A committed step is replayed from its entry for ever, and never moves money again."""

from datetime import timedelta

import pytest

from settlement.model.errors import IdempotencyConflict
from settlement.model.status import Status, Step
from tests.store.saga import DEADLINE, ENTRIES, LATER, OTHER_STATUSES, Saga


@pytest.mark.parametrize("step", Step)
def test_a_replayed_step_returns_the_entry_of_the_first_call(
    saga: Saga, step: Step, counted: list[str]
) -> None:
    first = saga.after(step)
    outcome = ["Settled"] if step is Step.FEE else []
    assert counted == outcome

    with saga.writes_nothing():
        replay = saga.commit(step, LATER)

    assert replay == first == ENTRIES[step]
    assert counted == [*outcome, "StepReplayed"]


@pytest.mark.parametrize("step", Step)
def test_a_step_is_replayed_after_the_deadline_and_after_the_end(saga: Saga, step: Step) -> None:
    saga.after(Step.FEE)

    with saga.writes_nothing():
        assert saga.commit(step, DEADLINE + timedelta(days=100)) == ENTRIES[step]


@pytest.mark.parametrize(
    ("step", "status"),
    [*((step, Status.COMPENSATING) for step in Step), *((Step.HOLD, status) for status in OTHER_STATUSES)],
)
def test_a_step_is_replayed_in_any_status_of_its_settlement(saga: Saga, step: Step, status: Status) -> None:
    saga.after(step)
    saga.alter(status=status)

    with saga.writes_nothing():
        assert saga.commit(step, LATER) == ENTRIES[step]


def test_a_hold_is_replayed_though_the_payer_could_not_bear_it_a_second_time(saga: Saga) -> None:
    saga.start(payer=4820)
    saga.commit(Step.HOLD)
    saga.ledger.open("alice", 0, limbo_keys={"order-2026-000099"})

    with saga.writes_nothing():
        assert saga.commit(Step.HOLD, LATER) == ENTRIES[Step.HOLD]


@pytest.mark.parametrize(
    ("step", "other"),
    [
        *((step, {"amount": 4821}) for step in Step),
        *(
            (Step.HOLD, other)
            for other in ({"fee": 49}, {"payer": "carol"}, {"payee": "x"}, {"currency": "USD"})
        ),
    ],
)
def test_a_committed_step_is_not_replayed_to_a_call_with_other_content(
    saga: Saga, step: Step, other: dict[str, str], counted: list[str]
) -> None:
    saga.after(step)

    with saga.writes_nothing(), pytest.raises(IdempotencyConflict, match="other content"):
        saga.asking(**other).commit(step, LATER)

    assert counted == (["Settled"] if step is Step.FEE else [])
