from typing import Any

import pytest

from settlement.core.model.errors import (
    AccountClosed,
    AccountNotFound,
    CapExceeded,
    CurrencyMismatch,
    DeadlineExceeded,
    StepFenced,
)
from tests.handlers.conftest import Calls
from tests.world.constants import CLAIMED_AT, KEY


def test_the_first_call_releases_the_amount_less_the_fee(calls: Calls) -> None:
    calls.before("ReleaseFunds")

    assert calls("ReleaseFunds") is None

    assert calls.entry("release") == {
        "posted_at": CLAIMED_AT,
        "debit": f"escrow:{KEY}",
        "credit": "bob",
        "side": "credit",
        "amount": 4772,
        "currency": "EUR",
    }
    assert calls.ledger.row({"pk": "ENTRIES#bob", "sk": f"{CLAIMED_AT}#{KEY}:release"})
    assert calls.account("bob")["available"] == 5272
    assert (calls.row()["escrow"], calls.row()["release_at"]) == (48, CLAIMED_AT)


def test_nothing_is_released_before_the_verdict(calls: Calls) -> None:
    calls.before("VerifyKyc")

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls("ReleaseFunds")


def test_nothing_is_released_after_the_deadline(calls: Calls) -> None:
    calls.before("ReleaseFunds")
    calls.later(minutes=15)

    with calls.writes_nothing(), pytest.raises(DeadlineExceeded):
        calls("ReleaseFunds")


@pytest.mark.parametrize(
    ("payee", "error"),
    [
        ({"available": 100_000_000 - 4771}, CapExceeded),
        ({"available": 500, "currency": "USD"}, CurrencyMismatch),
        ({"available": 0, "closed_at": "then"}, AccountClosed),
        (None, AccountNotFound),
    ],
)
def test_a_payee_who_cannot_be_paid_is_refused_by_name(
    calls: Calls, payee: dict[str, Any] | None, error: type[Exception]
) -> None:
    calls.before("ReleaseFunds")
    calls.close("bob")
    if payee:
        calls.ledger.open("bob", **payee)

    with calls.writes_nothing(), pytest.raises(error):
        calls("ReleaseFunds")
