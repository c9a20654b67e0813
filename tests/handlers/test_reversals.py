"""RefundFee, ReclaimFunds and VoidHold: each reverses its committed step, once."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.ledger import keys
from settlement.model.errors import IdempotencyConflict, InvalidRequest, StepFenced
from settlement.model.status import Status
from tests.handlers.calls import (
    CLAIMED_AT,
    KEY,
    MALFORMED_SETTLEMENTS,
    ORDER,
    OTHER_CONTENT,
    REJECTED_BY_KYC,
    REVERSALS,
    WIRE,
    Calls,
)

STATES = pytest.mark.parametrize("state", REVERSALS)
NEVER_COMMITTED = [
    ("RefundFee", "ReleaseFunds"),
    ("RefundFee", "ClaimKey"),
    ("ReclaimFunds", "VerifyKyc"),
    ("ReclaimFunds", "ClaimKey"),
    ("VoidHold", "ClaimKey"),
]
ALL = ["fee", "hold", "release", "verify"]


@STATES
def test_a_replay_leaves_the_first_entry_and_moves_nothing(
    calls: Calls, later: Callable[[], None], state: str, counted: Callable[[], dict[str, float]]
) -> None:
    found = calls.reopened(state)
    calls.reverse(state, found)
    first = calls.entry(f"compensate:{REVERSALS[state]}")
    later()
    counted()

    with calls.writes_nothing():
        assert calls.reverse(state, found) is None

    assert first == calls.entry(f"compensate:{REVERSALS[state]}")
    assert first["posted_at"] == CLAIMED_AT
    assert counted() == {"StepCalled": 1, "StepReplayed": 1}


@STATES
def test_a_step_that_is_reversed_already_is_left_alone(
    calls: Calls, state: str, counted: Callable[[], dict[str, float]]
) -> None:
    calls.unwind(calls.reopened("RefundFee"))
    counted()

    with calls.writes_nothing():
        calls.reverse(state, {"steps": ALL, "reversed": list(REVERSALS.values())})

    assert counted() == {"StepCalled": 1}  # no write was tried, else it would be a replay


@pytest.mark.parametrize(("state", "last"), NEVER_COMMITTED)
def test_a_skipped_reversal_is_on_record_and_moves_nothing(
    calls: Calls, later: Callable[[], None], state: str, last: str
) -> None:
    calls.after(last)
    found = calls.begin(error=REJECTED_BY_KYC)
    balances = (calls.account("alice"), calls.account("bob"))
    step = REVERSALS[state]
    evidence = {"posted_at": CLAIMED_AT, "reason": f"nothing to reverse: {step} never committed"}

    assert calls.reverse(state, found) is None

    assert calls.entry(f"compensate:{step}") == evidence
    assert (calls.account("alice"), calls.account("bob")) == balances
    later()
    with calls.writes_nothing():
        calls.reverse(state, found)
    assert calls.entry(f"compensate:{step}") == evidence


@pytest.mark.parametrize(("state", "last"), NEVER_COMMITTED[:4])
def test_a_skipped_reversal_of_a_fee_or_a_release_leaves_the_row(calls: Calls, state: str, last: str) -> None:
    calls.after(last)
    found = calls.begin(error=REJECTED_BY_KYC)
    before = calls.row()

    calls.reverse(state, found)

    assert calls.row() == before


@STATES
@pytest.mark.parametrize("status", [status for status in Status if status is not Status.COMPENSATING])
def test_a_step_is_reversed_only_in_compensation(
    calls: Calls, state: str, status: Status, counted: Callable[[], dict[str, float]]
) -> None:
    found = calls.reopened(state)
    calls.alter(status=status)
    counted()

    with (
        calls.writes_nothing(),
        pytest.raises(StepFenced, match=rf"^compensate:{REVERSALS[state]}: the settlement is {status} with"),
    ):
        calls.reverse(state, found)

    assert counted() == {"StepCalled": 1, "StepFenced": 1}


@STATES
def test_the_reversal_of_a_step_that_was_written_off_meanwhile_is_fenced(calls: Calls, state: str) -> None:
    found = calls.reopened(state)
    calls.alter(reversed={*calls.row().get("reversed", ()), REVERSALS[state]})

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls.reverse(state, found)


@STATES
def test_the_reversal_of_a_step_that_is_not_on_the_row_is_fenced(calls: Calls, state: str) -> None:
    found = calls.reopened(state)
    calls.alter(steps={"verify"})

    with (
        calls.writes_nothing(),
        pytest.raises(StepFenced, match=r"is COMPENSATING with steps \[verify\] committed and \["),
    ):
        calls.reverse(state, found)


@STATES
def test_nothing_is_reversed_for_a_key_that_was_never_claimed(calls: Calls, state: str) -> None:
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("bob", 10_000)

    with calls.writes_nothing(), pytest.raises(StepFenced, match=r"was never claimed$"):
        calls.reverse(state, {"steps": ALL, "reversed": []})


@pytest.mark.parametrize("other", OTHER_CONTENT)
@pytest.mark.parametrize("reversed_", [True, False])
@STATES
def test_other_content_is_refused(calls: Calls, state: str, reversed_: bool, other: dict[str, str]) -> None:
    calls.ledger.open("carol", 10_000)
    found = calls.reopened(state)
    if reversed_:
        calls.reverse(state, found)

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls.reverse(state, found, other)


@STATES
def test_a_settlement_without_a_fee_is_reversed_too(calls: Calls, state: str) -> None:
    free = WIRE | {"fee": "0.00"}
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("bob", 500)
    for forward in ("ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"):
        calls(forward, free, claimed_at=CLAIMED_AT)
    found = calls.begin(settlement=free, reversal=ORDER)
    for earlier in REVERSALS:
        calls.reverse(earlier, found, free)
        if earlier == state:
            break

    entry = calls.ledger.row(keys.entry(KEY, f"compensate:{REVERSALS[state]}"))
    assert entry is not None
    assert entry["amount"] == {"RefundFee": 0, "ReclaimFunds": 4820, "VoidHold": 4820}[state]


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("settlement", "message"), MALFORMED_SETTLEMENTS)
@STATES
def test_a_malformed_settlement_is_refused(calls: Calls, state: str, settlement: Any, message: str) -> None:
    found = calls.reopened(state)

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls.reverse(state, found, settlement)
