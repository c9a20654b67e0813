"""HoldFunds: the hold, and each refusal that the machine branches on."""

from typing import Any

import pytest

from settlement.model.errors import (
    AccountInLimbo,
    AccountNotFound,
    CurrencyMismatch,
    DeadlineExceeded,
    InsufficientFunds,
)
from tests.handlers.conftest import Counted, Later
from tests.world.constants import CLAIMED_AT, KEY
from tests.world.functions import Calls


def test_the_first_call_holds_the_amount(calls: Calls) -> None:
    calls.before("HoldFunds")

    assert calls("HoldFunds") is None

    assert calls.entry("hold") == {
        "posted_at": CLAIMED_AT,
        "debit": "alice",
        "credit": f"escrow:{KEY}",
        "side": "debit",
        "amount": 4820,
        "currency": "EUR",
        "gsi1pk": "ACCOUNT#alice",
        "gsi1sk": f"{CLAIMED_AT}#{KEY}:hold",
    }
    assert calls.account("alice")["available"] == 5180
    assert (calls.row()["escrow"], calls.row()["steps"]) == (4820, {"hold"})


def test_nothing_is_held_after_the_deadline(calls: Calls, later: Later) -> None:
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
    calls: Calls, counted: Counted, payer: dict[str, Any] | None, error: type[Exception]
) -> None:
    calls("ClaimKey")
    if payer:
        calls.ledger.open("alice", **payer)
    counted()

    with calls.writes_nothing(), pytest.raises(error):
        calls("HoldFunds")

    assert counted() == {"StepCalled": 1, error.__name__: 1}
