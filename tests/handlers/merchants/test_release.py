from typing import Any

import pytest

from settlement.core.model.errors import (
    AccountClosed,
    AccountNotFound,
    CurrencyMismatch,
)
from tests.handlers.conftest import Calls
from tests.world.constants import CLAIMED_AT, WIRE

SHOP = {**WIRE, "payee": "merchant.shop"}


@pytest.mark.parametrize(
    ("shop", "error"),
    [
        ({"available": 0, "currency": "USD"}, CurrencyMismatch),
        ({"available": 0, "closed_at": "then"}, AccountClosed),
        (None, AccountNotFound),
    ],
)
def test_an_unpayable_merchant_is_refused_by_name_unless_already_paid(
    calls: Calls, shop: dict[str, Any] | None, error: type[Exception]
) -> None:
    """A merchant closed after its release: a resumed execution goes on to the fee."""

    def change() -> None:
        calls.close("merchant.shop")
        if shop:
            calls.ledger.open("merchant.shop", **shop)

    calls.ledger.open("alice", 10_000)
    calls.ledger.open("merchant.shop", 0)
    for state in ("HoldFunds", "VerifyKyc"):
        calls(state, SHOP, claimed_at=CLAIMED_AT)
    change()
    with calls.writes_nothing(), pytest.raises(error, match=r"^payee: "):
        calls("ReleaseFunds", SHOP, claimed_at=CLAIMED_AT)
    calls.close("merchant.shop")
    calls.ledger.open("merchant.shop", 0)
    calls("ReleaseFunds", SHOP, claimed_at=CLAIMED_AT)
    change()

    with calls.writes_nothing():
        calls("ReleaseFunds", SHOP, claimed_at=CLAIMED_AT)
    calls("CollectFee", SHOP, claimed_at=CLAIMED_AT)

    assert calls.row()["status"] == "SETTLED"
