from datetime import timedelta
from typing import Any

import pytest

from settlement.core.model.errors import AccountInLimbo, CurrencyMismatch, InsufficientFunds
from settlement.core.model.status import Step
from settlement.core.policy import steps
from tests.store.rows import HELD, QUEUED, book
from tests.world.environment import NOW
from tests.world.saga import ALICE, DEADLINE, ENTRIES, LATER, Saga, state_of

REFUSED: list[tuple[type[Exception], dict[str, Any]]] = [
    (InsufficientFunds, {"available": 4819}),
    (AccountInLimbo, {"limbo_cases": 1}),
    (CurrencyMismatch, {"currency": "USD"}),
]
"""The payer's refusals, with the account change that causes each."""


# An unclaimed key


def test_claim_and_hold_commit_in_one_transaction(saga: Saga) -> None:
    saga.fund()

    assert saga.claim_and_hold() is None

    assert saga.books() == book(HELD, ENTRIES[Step.HOLD], alice=5180, bob=500)


@pytest.mark.parametrize(("error", "change"), REFUSED, ids=lambda each: getattr(each, "__name__", ""))
def test_a_refused_hold_leaves_the_key_free(
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
def test_a_second_call_finds_the_first_settlement_whatever_its_clock(saga: Saga, owner: str) -> None:
    saga.fund()
    saga.claim_and_hold()
    saga.ledger.open("alice", 0, limbo_cases=1)  # it could not bear it a second time

    for now in (NOW, LATER, DEADLINE + timedelta(days=100)):
        with saga.writes_nothing():
            found = saga.claim_and_hold(now, owner)
        assert found == state_of(HELD)
        assert found is not None
        assert steps.is_replay(found, owner) == (owner == "execution-2")


def test_a_key_claimed_by_the_queue_is_held_separately(saga: Saga) -> None:
    saga.fund()
    claimed = saga.claim()

    with saga.writes_nothing():
        assert saga.claim_and_hold(LATER) == claimed
    assert not steps.is_replay(claimed, "execution-1")
    assert Step.HOLD not in claimed.steps
    saga.commit(Step.HOLD)

    assert saga.books() == book(QUEUED, ENTRIES[Step.HOLD], alice=5180, bob=500)
