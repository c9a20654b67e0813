"""Every step, called by many threads at once, against AWS's own engine: a client each, a start together."""

import random
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from settlement.ledger.keys import Row
from settlement.model.errors import InsufficientFunds, StepFenced
from settlement.model.state import SettlementState
from settlement.model.status import Status, Step
from tests.conftest import NOW
from tests.store.books import assert_conserved
from tests.store.rivals import at_once, callers
from tests.store.saga import KEY, Saga, outcome_of, state_of

pytestmark = pytest.mark.parametrize("ledger", ["dynamodb-local"], indirect=True)

CALLERS, DUPLICATES = 32, 64


@pytest.fixture
def funded(saga: Saga) -> Saga:
    saga.fund(payer=4820)
    return saga


def entries(saga: Saga) -> list[Row]:
    return [row for row in saga.ledger.rows() if row["pk"] == f"SETTLEMENT#{KEY}" and "step" in row]


@pytest.mark.parametrize("step", Step)
def test_a_step_called_by_many_at_once_is_one_entry_and_one_movement(
    funded: Saga, step: Step, counted: list[str]
) -> None:
    funded.claim()
    for earlier in list(Step)[: list(Step).index(step)]:
        funded.commit(earlier)

    answers = at_once(
        [
            partial(caller.commit, step, NOW + timedelta(milliseconds=number))
            for number, caller in enumerate(callers(funded, DUPLICATES))
        ]
    )

    (posted,) = (entry for entry in entries(funded) if entry["step"] == step)
    assert answers == [posted] * DUPLICATES
    settled = ["Settled"] if step is Step.FEE else []
    assert sorted(counted) == [*settled, *["StepReplayed"] * (DUPLICATES - 1)]
    assert funded.row()["steps"] == set(list(Step)[: list(Step).index(step) + 1])
    assert_conserved(funded.ledger.rows())


def test_a_key_claimed_by_many_owners_at_once_has_one_owner(saga: Saga) -> None:
    claimed = at_once(
        [
            partial(caller.claim, NOW, f"execution-{number}")
            for number, caller in enumerate(callers(saga, DUPLICATES))
        ]
    )

    (row,) = saga.ledger.rows()
    assert claimed == [state_of(row)] * DUPLICATES


@pytest.mark.parametrize(("rivals", "affordable"), [(2, 1), (16, 5)])
def test_as_many_settlements_hold_as_the_payer_can_afford(funded: Saga, rivals: int, affordable: int) -> None:
    amount = 4820 // affordable
    racing = [
        caller.asking(key=f"order-2026-0002{number:02}", amount=amount)
        for number, caller in enumerate(callers(funded, rivals))
    ]
    for rival in racing:
        rival.claim()

    answers = at_once([partial(rival.commit, Step.HOLD) for rival in racing])

    assert sum(isinstance(answer, dict) for answer in answers) == affordable
    assert sum(isinstance(answer, InsufficientFunds) for answer in answers) == rivals - affordable
    assert funded.ledger.rows()[0]["available"] == 0
    assert [rival.row()["escrow"] for rival in racing] == [
        amount if isinstance(answer, dict) else 0 for answer in answers
    ]
    assert_conserved(funded.ledger.rows())


@pytest.mark.parametrize("seed", range(3))
def test_steps_called_out_of_order_by_many_are_refused_and_leave_the_rows_consistent(
    funded: Saga, seed: int
) -> None:
    funded.claim()
    shuffled = random.Random(seed)
    orders = [(caller, shuffled.sample(list(Step), len(Step))) for caller in callers(funded, 16)]

    def in_that_order(caller: Saga, order: list[Step]) -> list[Any]:
        return [outcome_of(partial(caller.commit, step)) for step in order]

    answers = at_once([partial(in_that_order, caller, order) for caller, order in orders])

    refusals = [answer for some in answers for answer in some if not isinstance(answer, dict)]
    assert {type(refusal) for refusal in refusals} <= {StepFenced}
    found = {entry["step"] for entry in entries(funded)}
    assert found == set(list(Step)[: len(found)]) == set(funded.row().get("steps", ()))
    assert_conserved(funded.ledger.rows())

    for step in Step:
        funded.commit(step)

    row = funded.row()
    assert (row["status"], row["escrow"]) == (Status.SETTLED, 0)
    assert [found["available"] for found in funded.ledger.rows()[:2]] == [0, 5272]
    assert_conserved(funded.ledger.rows())


@pytest.mark.parametrize("step", [Step.VERIFY, Step.RELEASE, Step.FEE])
def test_no_number_of_callers_gets_a_step_past_the_one_before_it(funded: Saga, step: Step) -> None:
    funded.claim()

    with funded.writes_nothing():
        answers = at_once([partial(caller.commit, step) for caller in callers(funded, CALLERS)])

    assert [type(answer) for answer in answers] == [StepFenced] * CALLERS


def test_a_hold_and_a_rejection_at_once_never_both_commit(funded: Saga) -> None:
    funded.claim()
    failure = {"step": "hold", "error": "StepFenced", "cause": ""}
    calls = [
        partial(caller.commit, Step.HOLD) if number % 2 else partial(caller.reject, failure)
        for number, caller in enumerate(callers(funded, CALLERS))
    ]

    answers = at_once(calls)

    rejected, held = answers[::2], answers[1::2]
    lost = funded.state().status is Status.REJECTED
    assert {type(answer) for answer in rejected} == {SettlementState if lost else StepFenced}
    assert {type(answer) for answer in held} == {StepFenced if lost else dict}
    assert len(entries(funded)) == (0 if lost else 1)
    assert_conserved(funded.ledger.rows())
