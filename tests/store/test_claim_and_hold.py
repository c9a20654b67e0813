from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.model.errors import (
    AccountInLimbo,
    CurrencyMismatch,
    InsufficientFunds,
)
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status, Step
from settlement.core.policy import steps
from tests.store.rivals import at_once, callers
from tests.store.rows import HELD, QUEUED, book
from tests.world.books import assert_conserved
from tests.world.environment import NOW
from tests.world.saga import ALICE, BOB, DEADLINE, ENTRIES, LATER, Saga, state_of

CALLERS = 16
THREADS = pytest.mark.parametrize("engine", ["server"])
REFUSED: list[tuple[type[Exception], dict[str, Any]]] = [
    (InsufficientFunds, {"available": 4819}),
    (AccountInLimbo, {"limbo_cases": 1}),
    (CurrencyMismatch, {"currency": "USD"}),
]
"""The payer's refusals, with the account change that causes each."""


# An unclaimed key


def test_an_unclaimed_key_is_claimed_and_held_in_one_transaction(saga: Saga) -> None:
    saga.fund()

    assert saga.claim_and_hold() is None

    assert saga.books() == book(HELD, ENTRIES[Step.HOLD], alice=5180, bob=500)


@pytest.mark.parametrize(("error", "change"), REFUSED, ids=lambda each: getattr(each, "__name__", ""))
def test_a_refused_hold_claims_nothing_and_leaves_the_key_free(
    saga: Saga, error: type[Exception], change: dict[str, Any]
) -> None:
    saga.fund()
    saga.ledger.put(ALICE | change)
    with saga.writes_nothing(), pytest.raises(error, match=r"^payer: "):
        saga.claim_and_hold()
    saga.ledger.put(ALICE)

    other = saga.asking(amount=4821)

    assert other.claim_and_hold(LATER, "execution-2") is None
    assert (other.row()["owner"], other.row()["amount"]) == ("execution-2", 4821)


# A claimed key


@pytest.mark.parametrize("owner", ["execution-1", "execution-2"])
def test_a_second_call_by_any_clock_finds_the_first_settlement(saga: Saga, owner: str) -> None:
    saga.fund()
    saga.claim_and_hold()
    saga.ledger.open("alice", 0, limbo_cases=1)  # it could not bear it a second time

    for now in (NOW, LATER, DEADLINE + timedelta(days=100)):
        with saga.writes_nothing():
            found = saga.claim_and_hold(now, owner)
        assert found == state_of(HELD)
        assert found is not None
        assert steps.is_replay(found, owner) == (owner == "execution-2")


def test_a_call_with_other_content_finds_the_first_requests_settlement(saga: Saga) -> None:
    saga.fund()
    saga.claim_and_hold()

    for change in ({"amount": 4821}, {"fee": 49}, {"payee": "carol"}, {"payer": "bob", "payee": "alice"}):
        other = saga.asking(**change)
        with saga.writes_nothing():
            found = other.claim_and_hold(LATER)
        assert found == state_of(HELD)
        assert found is not None
        assert not found.same_request(other.settlement)


@pytest.mark.parametrize("status", Status)
def test_a_claimed_key_is_never_held_again_in_any_status(saga: Saga, status: Status) -> None:
    saga.fund()
    saga.claim_and_hold()
    saga.alter(status=status)

    with saga.writes_nothing():
        found = saga.claim_and_hold(LATER)

    assert found is not None
    assert (found.status, steps.is_replay(found, "execution-1")) == (status, status is not Status.PROCESSING)


def test_a_key_claimed_by_the_queue_awaits_a_separate_hold(saga: Saga) -> None:
    saga.fund()
    claimed = saga.claim()

    with saga.writes_nothing():
        assert saga.claim_and_hold(LATER) == claimed
    assert not steps.is_replay(claimed, "execution-1")
    assert Step.HOLD not in claimed.steps
    saga.commit(Step.HOLD)

    assert saga.books() == book(QUEUED, ENTRIES[Step.HOLD], alice=5180, bob=500)


# Many at once


@THREADS
def test_concurrent_claims_with_hold_leave_one_owner_and_one_hold(saga: Saga) -> None:
    saga.fund()

    answers = at_once(
        [
            partial(caller.claim_and_hold, NOW + timedelta(milliseconds=number), f"execution-{number}")
            for number, caller in enumerate(callers(saga, CALLERS))
        ]
    )

    winner = answers.index(None)
    state = saga.state()
    assert [answer for answer in answers if answer is not None] == [state] * (CALLERS - 1)
    assert (state.owner, state.claimed_at) == (f"execution-{winner}", state.steps[Step.HOLD])
    assert saga.books()[0] == ALICE | {"available": 5180}


@THREADS
def test_of_many_concurrent_contents_one_takes_key_and_money(saga: Saga) -> None:
    saga.fund()
    asked = [caller.asking(amount=1000 + number) for number, caller in enumerate(callers(saga, CALLERS))]

    answers = at_once([each.claim_and_hold for each in asked])

    winner = answers.index(None)
    assert [answer for answer in answers if answer is not None] == [saga.state()] * (CALLERS - 1)
    assert saga.books()[0] == ALICE | {"available": 9000 - winner}


@THREADS
def test_concurrent_claims_with_and_without_a_hold_are_one_claim(saga: Saga) -> None:
    saga.fund()
    calls = [
        partial(caller.claim_and_hold if number % 2 else caller.claim, NOW, f"execution-{number}")
        for number, caller in enumerate(callers(saga, CALLERS))
    ]

    answers = at_once(calls)

    state = saga.state()
    held = None in answers
    assert answers.count(None) == int(held) == len(state.steps)
    assert {answer.owner for answer in answers if isinstance(answer, SettlementState)} == {state.owner}
    assert saga.books()[:2] == [ALICE | {"available": 5180 if held else 10_000}, BOB]


@THREADS
@pytest.mark.parametrize(("rivals", "affordable"), [(2, 1), (16, 5)])
def test_as_many_payments_are_claimed_as_the_payer_can_afford(
    saga: Saga, rivals: int, affordable: int
) -> None:
    saga.fund(payer=4820)
    amount = 4820 // affordable
    racing = [
        caller.asking(key=f"order-2026-0002{number:02}", amount=amount)
        for number, caller in enumerate(callers(saga, rivals))
    ]

    answers = at_once([rival.claim_and_hold for rival in racing])

    assert answers.count(None) == affordable
    assert sum(isinstance(answer, InsufficientFunds) for answer in answers) == rivals - affordable
    claimed = {rival.settlement.key for rival, answer in zip(racing, answers, strict=True) if answer is None}
    found = saga.ledger.rows()
    assert {keys.subject(row)[1] for row in found if keys.is_settlement(row)} == claimed
    assert found[0]["available"] == 0
    assert_conserved(found)
