from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from settlement.core.ledger.keys import Row
from settlement.core.model.errors import CapExceeded, IdempotencyConflict, InsufficientFunds, StepFenced
from settlement.core.model.orders import Resolution
from settlement.core.model.status import Status, Step
from settlement.core.model.timestamps import timestamp
from settlement.core.policy import outcome
from tests.store.rows import book, posted
from tests.world.saga import (
    ALICE,
    BOB,
    CAP,
    CLAIMED,
    COMPLETE,
    DEADLINE,
    ENTRIES,
    FINISHED,
    LATER,
    OTHER_STATUSES,
    POSTED_AT,
    RETRY,
    WRITE_OFF,
    Saga,
    outcome_of,
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
LAST_BEFORE = [None, Step.HOLD, Step.VERIFY, Step.RELEASE]
MONEY = [Step.HOLD, Step.RELEASE, Step.FEE]


# The claim


def test_the_first_claim_puts_the_row_that_later_claims_get(
    saga: Saga,
) -> None:
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


def test_a_settlement_without_a_fee_settles_all_the_same(saga: Saga) -> None:
    free = saga.asking(fee=0)

    entry = free.after(Step.FEE)

    assert (entry["amount"], entry["credit"]) == (0, "fees:EUR")
    assert (free.row()["status"], free.row()["escrow"]) == ("SETTLED", 0)
    assert free.ledger.rows()[1] == BOB | {"available": 5320}


def test_the_fee_step_reports_the_rows_outcome_without_reading_it(saga: Saga) -> None:
    saga.before(Step.FEE)

    entry = saga.commit(Step.FEE, LATER)

    reported = outcome.of_settled(
        saga.settlement, saga.config, claimed_at=POSTED_AT, finished_at=entry["posted_at"]
    )
    assert reported == outcome.of_state(saga.state(), saga.config, replayed=False)


@pytest.mark.parametrize(("net", "fits"), [(CAP, True), (CAP + 1, False)])
def test_an_empty_account_takes_a_release_up_to_the_cap(saga: Saga, net: int, fits: bool) -> None:
    large = saga.asking(amount=net + 48)
    large.start(payer=net + 48, payee=0)
    large.commit(Step.HOLD)
    large.commit(Step.VERIFY)

    released = outcome_of(lambda: large.commit(Step.RELEASE))

    assert type(released) is (dict if fits else CapExceeded)
    assert large.ledger.rows()[1] == BOB | {"available": CAP if fits else 0}


def test_an_account_blocked_after_the_hold_stops_no_release(saga: Saga) -> None:
    saga.before(Step.RELEASE)
    for account, available in (("alice", 5180), ("bob", 500)):
        saga.ledger.open(account, available, limbo_cases=1)

    saga.commit(Step.RELEASE)

    assert saga.ledger.rows()[1] == BOB | {"available": 5272, "limbo_cases": 1}


# A refusal writes nothing, and the settlement's is named before the account's


@pytest.mark.parametrize("step", [Step.HOLD, Step.RELEASE])
def test_a_refused_balance_keeps_entry_and_settlement_from_being_written(saga: Saga, step: Step) -> None:
    saga.before(step)
    saga.ledger.open("alice", 0)
    saga.ledger.open("bob", CAP)

    error = InsufficientFunds if step is Step.HOLD else CapExceeded
    with saga.writes_nothing(), pytest.raises(error):
        saga.commit(step)


@pytest.mark.parametrize(
    ("changes", "error"),
    [({"status": Status.REJECTED}, StepFenced), ({"request_hash": "another"}, IdempotencyConflict)],
    ids=["fenced", "other content"],
)
def test_the_settlement_is_named_before_the_balance_when_both_refuse(
    saga: Saga, changes: Mapping[str, Any], error: type[Exception]
) -> None:
    saga.start(payer=0)
    saga.alter(**changes)

    with saga.writes_nothing(), pytest.raises(error):
        saga.commit(Step.HOLD, DEADLINE)


@pytest.mark.parametrize("step", MONEY)
def test_an_entry_in_the_way_stays_and_stops_its_step(saga: Saga, step: Step) -> None:
    saga.before(step)
    saga.ledger.put(ENTRIES[step] | {"amount": 1})

    with saga.writes_nothing(), pytest.raises(IdempotencyConflict, match="other content"):
        saga.send(step)


# Replays


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
def test_a_retry_by_a_later_clock_finds_the_first_slot(saga: Saga, step: Step) -> None:
    """Its entry would have another key: only the settlement's row records the step."""
    saga.after(step)

    with saga.writes_nothing():
        found = saga.send(step, LATER)

    assert found == saga.state()
    assert found.steps[step] == ENTRIES[step]["posted_at"] != timestamp(LATER)


@pytest.mark.parametrize("step", Step)
def test_a_committed_step_is_no_replay_for_other_content(saga: Saga, step: Step, counted: list[str]) -> None:
    saga.after(step)

    with saga.writes_nothing(), pytest.raises(IdempotencyConflict, match="other content"):
        saga.asking(amount=4821).commit(step, LATER)

    assert counted == (["Settled"] if step is Step.FEE else [])


# The rejection


def test_a_rejection_keeps_its_first_failure_and_leaves_the_index(saga: Saga) -> None:
    saga.start()

    assert saga.reject(FAILURE, LATER) == state_of(REJECTED)

    with saga.writes_nothing():
        again = saga.reject({"step": "hold", "error": "AccountInLimbo", "cause": ""}, DEADLINE)
    assert again == state_of(REJECTED)
    assert saga.ledger.rows() == [ALICE, BOB, REJECTED]


def test_an_execution_rejects_only_the_settlement_that_it_still_owns(saga: Saga) -> None:
    saga.start()

    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^reject: the settlement is PROCESSING "):
        saga.reject(FAILURE, LATER, owner="execution-2")

    assert saga.reject(FAILURE, LATER, owner="execution-1") == state_of(REJECTED)
    with saga.writes_nothing():
        assert saga.reject(FAILURE, DEADLINE, owner="execution-2") == state_of(REJECTED)


# A function that still runs after its settlement was fenced off


def assert_fenced(saga: Saga, last: Step | None) -> None:
    """Check that uncommitted steps are refused and committed ones replayed.

    Evidence of a late verdict may stay.
    """
    status = saga.row()["status"]
    for step in Step:
        if ENTRIES[step] in posted(last):
            with saga.writes_nothing():
                assert saga.commit(step, LATER) == ENTRIES[step]
        else:
            nothing = saga.writes_only_evidence() if step is Step.VERIFY else saga.writes_nothing()
            with nothing, pytest.raises(StepFenced, match=f"^{step}: the settlement is {status} "):
                saga.send(step, LATER)


@pytest.mark.parametrize("last", LAST_BEFORE)
def test_no_late_step_commits_at_any_point_after_the_fence(saga: Saga, last: Step | None) -> None:
    saga.begun(last)
    assert_fenced(saga, last)

    for step in saga.state().unreversed:
        saga.reverse(step)
        assert_fenced(saga, last)

    saga.unwind()
    assert_fenced(saga, last)
    assert saga.row()["status"] == Status.COMPENSATED
    assert [row["available"] for row in saga.books()[:2]] == [10_000, 500]


@pytest.mark.parametrize("resolution", [RETRY, WRITE_OFF, COMPLETE], ids=lambda each: each.decision)
def test_no_late_step_commits_in_limbo_nor_after_the_decision(saga: Saga, resolution: Resolution) -> None:
    """The fee is the late step: only LIMBO keeps it from committing."""
    saga.stuck(Step.RELEASE, last=Step.RELEASE)
    assert_fenced(saga, Step.RELEASE)

    saga.resolve(resolution)
    assert_fenced(saga, Step.RELEASE)

    saga.books()
