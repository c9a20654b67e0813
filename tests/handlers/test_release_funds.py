"""ReleaseFunds: the release, its replay, and each refusal that the machine branches on."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.model.errors import (
    AccountNotFound,
    CapExceeded,
    CurrencyMismatch,
    DeadlineExceeded,
    IdempotencyConflict,
    InvalidRequest,
    StepFenced,
)
from settlement.model.status import Status
from tests.handlers.calls import CLAIMED_AT, KEY, MALFORMED_SETTLEMENTS, WIRE, Calls

RELEASED = {
    "posted_at": CLAIMED_AT,
    "debit": f"escrow:{KEY}",
    "credit": "bob",
    "side": "credit",
    "amount": 4772,
    "currency": "EUR",
    "gsi1pk": "ACCOUNT#bob",
    "gsi1sk": f"{CLAIMED_AT}#{KEY}:release",
}


def test_the_first_call_releases_the_amount_less_the_fee(calls: Calls) -> None:
    calls.before("ReleaseFunds")

    assert calls("ReleaseFunds") is None

    assert calls.entry("release") == RELEASED
    assert calls.ledger.rows()[1]["available"] == 5272
    assert (calls.row()["escrow"], calls.row()["steps"]) == (48, {"hold", "verify", "release"})


def test_a_replay_leaves_the_first_entry(calls: Calls, later: Callable[[], None]) -> None:
    calls.after("ReleaseFunds")
    later()

    with calls.writes_nothing():
        assert calls("ReleaseFunds") is None

    assert calls.entry("release") == RELEASED


@pytest.mark.parametrize("prepare", [Calls.before, Calls.after])
def test_other_content_is_refused(calls: Calls, prepare: Callable[[Calls, str], Any]) -> None:
    prepare(calls, "ReleaseFunds")

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls("ReleaseFunds", WIRE | {"amount": "48.21"})


@pytest.mark.parametrize("state", ["HoldFunds", "VerifyKyc"])
def test_nothing_is_released_before_the_verdict(calls: Calls, state: str) -> None:
    calls.before(state)

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls("ReleaseFunds")


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PROCESSING])
def test_nothing_is_released_past_processing(calls: Calls, status: Status) -> None:
    calls.before("ReleaseFunds")
    calls.alter(status=status)

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls("ReleaseFunds")


def test_nothing_is_released_after_the_deadline(calls: Calls, later: Callable[..., None]) -> None:
    calls.before("ReleaseFunds")
    later(minutes=15)

    with calls.writes_nothing(), pytest.raises(DeadlineExceeded):
        calls("ReleaseFunds")


@pytest.mark.parametrize(
    ("payee", "error"),
    [
        ({"available": 100_000_000 - 4771}, CapExceeded),
        ({"available": 500, "currency": "USD"}, CurrencyMismatch),
        (None, AccountNotFound),
    ],
)
def test_a_payee_who_cannot_be_paid_is_refused_by_name(
    calls: Calls, payee: dict[str, Any] | None, error: type[Exception]
) -> None:
    calls.ledger.open("alice", 10_000)
    if payee:
        calls.ledger.open("bob", **payee)
    for state in ("ClaimKey", "HoldFunds", "VerifyKyc"):
        calls(state)

    with calls.writes_nothing(), pytest.raises(error):
        calls("ReleaseFunds")


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("settlement", "message"), MALFORMED_SETTLEMENTS)
def test_a_malformed_settlement_is_refused(calls: Calls, settlement: Any, message: str) -> None:
    calls.before("ReleaseFunds")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls("ReleaseFunds", settlement)
