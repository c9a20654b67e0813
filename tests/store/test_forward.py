from datetime import timedelta

import pytest

from settlement.core.ledger.keys import Row
from settlement.core.model.errors import CapExceeded, InsufficientFunds
from settlement.core.model.status import Step
from settlement.core.model.timestamps import timestamp
from tests.store.rows import book
from tests.world.saga import (
    ALICE,
    BOB,
    CAP,
    CLAIMED,
    DEADLINE,
    ENTRIES,
    FINISHED,
    LATER,
    OTHER_STATUSES,
    POSTED_AT,
    Saga,
    so_far,
    state_of,
    up_to,
)

AFTER: dict[Step, tuple[int, int, Row]] = {
    Step.HOLD: (5180, 500, CLAIMED | {"escrow": 4820, **so_far(Step.HOLD)}),
    Step.VERIFY: (5180, 500, CLAIMED | {"escrow": 4820, **so_far(Step.VERIFY)}),
    Step.RELEASE: (5180, 5272, CLAIMED | {"escrow": 48, **so_far(Step.RELEASE)}),
    Step.FEE: (5180, 5272, FINISHED | {"finished_at": POSTED_AT, **so_far(Step.FEE)}),
}

FAILURE = {"step": "hold", "error": "InsufficientFunds", "cause": "payer: the account has too little"}
REJECTED = FINISHED | {"status": "REJECTED", "failure": FAILURE, "finished_at": "2026-11-20T12:00:07.123Z"}
REJECTED["sequence"] = 2
MONEY = [Step.HOLD, Step.RELEASE, Step.FEE]


# The claim


def test_the_first_claim_puts_the_row_that_later_claims_get(saga: Saga) -> None:
    assert saga.claim() == state_of(CLAIMED)
    assert saga.ledger.rows() == [CLAIMED]

    with saga.writes_nothing():
        assert saga.claim(LATER, "execution-2") == state_of(CLAIMED)
        assert saga.asking(amount=4821).claim(LATER) == state_of(CLAIMED)


# The steps


@pytest.mark.parametrize("step", Step)
def test_a_step_leaves_only_its_settlement_entry_and_balance(saga: Saga, step: Step) -> None:
    saga.before(step)

    assert saga.commit(step) == ENTRIES[step]

    alice, bob, row = AFTER[step]
    committed = [ENTRIES[earlier] for earlier in up_to(step)]
    assert saga.ledger.rows() == book(row, *committed, alice=alice, bob=bob)


# Refusals and replays


@pytest.mark.parametrize(
    ("step", "error"), [(Step.HOLD, InsufficientFunds), (Step.RELEASE, CapExceeded)], ids=str
)
def test_a_refused_balance_stops_the_whole_transaction(
    saga: Saga, step: Step, error: type[Exception]
) -> None:
    saga.before(step)
    saga.ledger.open("alice", 0)
    saga.ledger.open("bob", CAP)

    with saga.writes_nothing(), pytest.raises(error):
        saga.commit(step)


@pytest.mark.parametrize("step", Step)
def test_a_replayed_step_returns_the_entry_of_the_first_call(
    saga: Saga, step: Step, counted: list[str]
) -> None:
    saga.after(step)
    outcomes = ["Settled"] if step is Step.FEE else []
    assert counted == outcomes
    saga.ledger.open("alice", 0, limbo_cases=1)  # it could not bear it a second time

    for status in OTHER_STATUSES:
        saga.alter(status=status)
        with saga.writes_nothing():
            assert saga.commit(step, DEADLINE + timedelta(days=100)) == ENTRIES[step]

    assert counted == [*outcomes, *["StepReplayed"] * len(OTHER_STATUSES)]


@pytest.mark.parametrize("step", MONEY)
def test_a_retry_with_a_later_clock_finds_the_first_commit(saga: Saga, step: Step) -> None:
    """The retry's entry would have another key; only the settlement's row records the step."""
    saga.after(step)

    with saga.writes_nothing():
        found = saga.send(step, LATER)

    assert found == saga.state()
    assert found.steps[step] == ENTRIES[step]["posted_at"] != timestamp(LATER)


# The rejection


def test_a_repeated_rejection_keeps_the_first_failure(saga: Saga) -> None:
    saga.start()

    assert saga.reject(FAILURE, LATER) == state_of(REJECTED)

    with saga.writes_nothing():
        again = saga.reject({"step": "hold", "error": "AccountInLimbo", "cause": ""}, DEADLINE)
    assert again == state_of(REJECTED)
    assert saga.ledger.rows() == [ALICE, BOB, REJECTED]
