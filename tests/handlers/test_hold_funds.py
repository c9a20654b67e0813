"""HoldFunds: the hold, its replay, and each refusal that the machine branches on."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.model.errors import (
    AccountInLimbo,
    AccountNotFound,
    CurrencyMismatch,
    DeadlineExceeded,
    IdempotencyConflict,
    InsufficientFunds,
    InvalidRequest,
    StepFenced,
)
from settlement.model.status import Status
from tests.handlers.calls import CLAIMED_AT, KEY, MALFORMED_SETTLEMENTS, OTHER_CONTENT, Calls

HELD = {
    "posted_at": CLAIMED_AT,
    "debit": "alice",
    "credit": f"escrow:{KEY}",
    "side": "debit",
    "amount": 4820,
    "currency": "EUR",
    "gsi1pk": "ACCOUNT#alice",
    "gsi1sk": f"{CLAIMED_AT}#{KEY}:hold",
}


def test_the_first_call_holds_the_amount(calls: Calls) -> None:
    calls.before("HoldFunds")

    assert calls("HoldFunds") is None

    assert calls.entry("hold") == HELD
    assert calls.ledger.rows()[0]["available"] == 5180
    assert (calls.row()["escrow"], calls.row()["steps"]) == (4820, {"hold"})


def test_a_replay_leaves_the_first_entry(
    calls: Calls, later: Callable[[], None], counted: Callable[[], dict[str, float]]
) -> None:
    calls.after("HoldFunds")
    later()
    counted()

    with calls.writes_nothing():
        assert calls("HoldFunds") is None

    assert calls.entry("hold") == HELD
    assert counted() == {"StepReplayed": 1, "StepCalled": 1}


@pytest.mark.parametrize("other", OTHER_CONTENT)
@pytest.mark.parametrize("prepare", [Calls.before, Calls.after])
def test_other_content_is_refused(
    calls: Calls, other: dict[str, str], prepare: Callable[[Calls, str], Any]
) -> None:
    prepare(calls, "HoldFunds")

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls("HoldFunds", other)


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PROCESSING])
def test_nothing_is_held_for_a_settlement_that_is_past_processing(calls: Calls, status: Status) -> None:
    calls.before("HoldFunds")
    calls.alter(status=status)

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls("HoldFunds")


def test_nothing_is_held_for_a_key_that_was_never_claimed(calls: Calls) -> None:
    calls.ledger.open("alice", 10_000)

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls("HoldFunds")


def test_nothing_is_held_after_the_deadline(calls: Calls, later: Callable[..., None]) -> None:
    calls.before("HoldFunds")
    later(minutes=15)

    with calls.writes_nothing(), pytest.raises(DeadlineExceeded):
        calls("HoldFunds")


@pytest.mark.parametrize(
    ("payer", "error"),
    [
        ({"available": 4819}, InsufficientFunds),
        ({"available": 10_000, "currency": "USD"}, CurrencyMismatch),
        ({"available": 10_000, "limbo_keys": {"order-2026-000099"}}, AccountInLimbo),
        (None, AccountNotFound),
    ],
)
def test_a_payer_who_cannot_pay_is_refused_by_name(
    calls: Calls,
    payer: dict[str, Any] | None,
    error: type[Exception],
    counted: Callable[[], dict[str, float]],
) -> None:
    calls("ClaimKey")
    if payer:
        calls.ledger.open("alice", **payer)
    counted()

    with calls.writes_nothing(), pytest.raises(error):
        calls("HoldFunds")

    assert counted() == {"StepCalled": 1, error.__name__: 1}


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("settlement", "message"), MALFORMED_SETTLEMENTS)
def test_a_malformed_settlement_is_refused(calls: Calls, settlement: Any, message: str) -> None:
    calls.before("HoldFunds")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls("HoldFunds", settlement)
