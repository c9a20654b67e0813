"""What RefundFee, ReclaimFunds and VoidHold have in common: each reverses what has committed, once."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.errors import IdempotencyConflict, InvalidRequest, StepFenced
from settlement.status import Status
from tests.handlers.calls import (
    CLAIMED_AT,
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
def test_a_replay_gives_the_same_result_and_moves_nothing(
    calls: Calls, later: Callable[[], None], state: str, counted: Callable[[], dict[str, float]]
) -> None:
    found = calls.reopened(state)
    first = calls.undo(state, found)
    later()
    counted()

    with calls.writes_nothing():
        assert calls.undo(state, found) == first

    assert counted() == {"StepCalled": 1, "StepReplayed": 1}


@STATES
def test_what_is_reversed_already_is_left_alone(calls: Calls, state: str) -> None:
    calls.unwind(calls.reopened("RefundFee"))

    with calls.writes_nothing():
        assert calls.undo(state, {"steps": ALL, "reversed": list(REVERSALS.values())}) == {}


@pytest.mark.parametrize(("state", "last"), NEVER_COMMITTED)
def test_what_never_committed_is_put_on_record_as_such_and_moves_nothing(
    calls: Calls, later: Callable[[], None], state: str, last: str
) -> None:
    calls.after(last)
    found = calls.begin(error=REJECTED_BY_KYC)
    balances = (calls.account("alice"), calls.account("bob"))
    step = REVERSALS[state]
    evidence = {"posted_at": CLAIMED_AT, "reason": f"nothing to reverse: {step} never committed"}

    result = calls.undo(state, found)

    assert result == {"step": f"compensate:{step}", **evidence}
    assert calls.entry(f"compensate:{step}") == evidence
    assert (calls.account("alice"), calls.account("bob")) == balances
    later()
    with calls.writes_nothing():
        assert calls.undo(state, found) == result


@pytest.mark.parametrize(("state", "last"), NEVER_COMMITTED[:4])
def test_the_row_says_nothing_of_a_fee_or_a_release_that_never_committed(
    calls: Calls, state: str, last: str
) -> None:
    calls.after(last)
    found = calls.begin(error=REJECTED_BY_KYC)
    before = calls.row()

    calls.undo(state, found)

    assert calls.row() == before


@STATES
@pytest.mark.parametrize("status", [status for status in Status if status is not Status.COMPENSATING])
def test_nothing_is_reversed_but_in_compensation(
    calls: Calls, state: str, status: Status, counted: Callable[[], dict[str, float]]
) -> None:
    found = calls.reopened(state)
    calls.alter(status=status)
    counted()

    with (
        calls.writes_nothing(),
        pytest.raises(StepFenced, match=rf"^compensate:{REVERSALS[state]}: the settlement is {status} with"),
    ):
        calls.undo(state, found)

    assert counted() == {"StepCalled": 1, "StepFenced": 1}


@STATES
def test_what_was_written_off_since_is_fenced(calls: Calls, state: str) -> None:
    found = calls.reopened(state)
    calls.alter(reversed={*calls.row().get("reversed", ()), REVERSALS[state]})

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls.undo(state, found)


@STATES
def test_what_the_row_does_not_know_to_have_committed_is_fenced(calls: Calls, state: str) -> None:
    found = calls.reopened(state)
    calls.alter(steps={"verify"})

    with (
        calls.writes_nothing(),
        pytest.raises(StepFenced, match=r"is COMPENSATING with steps \[verify\] committed and \["),
    ):
        calls.undo(state, found)


@STATES
def test_nothing_is_reversed_for_a_key_that_was_never_claimed(calls: Calls, state: str) -> None:
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("bob", 10_000)

    with calls.writes_nothing(), pytest.raises(StepFenced, match=r"was never claimed$"):
        calls.undo(state, {"steps": ALL, "reversed": []})


@pytest.mark.parametrize("other", OTHER_CONTENT)
@pytest.mark.parametrize("reversed_", [True, False])
@STATES
def test_other_content_is_refused(calls: Calls, state: str, reversed_: bool, other: dict[str, str]) -> None:
    calls.ledger.open("carol", 10_000)
    found = calls.reopened(state)
    if reversed_:
        calls.undo(state, found)

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls.undo(state, found, other)


@STATES
def test_a_settlement_without_a_fee_is_reversed_too(calls: Calls, state: str) -> None:
    free = WIRE | {"fee": "0.00"}
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("bob", 500)
    for forward in ("ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"):
        calls(forward, free, claimed_at=CLAIMED_AT)
    found = calls.begin(settlement=free, reversal=ORDER)
    for earlier in REVERSALS:
        amount = calls.undo(earlier, found, free)["amount"]
        if earlier == state:
            break

    assert amount == {"RefundFee": "0.00", "ReclaimFunds": "48.20", "VoidHold": "48.20"}[state]


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("settlement", "message"), MALFORMED_SETTLEMENTS)
@STATES
def test_a_malformed_settlement_is_refused(calls: Calls, state: str, settlement: Any, message: str) -> None:
    found = calls.reopened(state)

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls.undo(state, found, settlement)
