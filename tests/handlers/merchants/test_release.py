from collections.abc import Callable
from typing import Any

import pytest

from handlers import _dependencies
from settlement.core.model.errors import AccountClosed, AccountNotFound, CurrencyMismatch, NotReversible
from tests.handlers.conftest import Calls
from tests.handlers.merchants.conftest import ENTRY, NET, SHOP
from tests.handlers.orders.test_reverse_part import reverse
from tests.world.constants import CLAIMED_AT


def test_a_release_to_a_merchant_leaves_its_balance_alone(paid: Calls) -> None:
    assert paid.account("merchant.shop")["available"] == 0
    assert paid.ledger.row(ENTRY)
    assert (paid.row()["escrow"], paid.row()["release_at"]) == (48, CLAIMED_AT)


def test_the_stages_highest_balance_does_not_stop_a_merchants_release(verified: Calls) -> None:
    verified.ledger.open("merchant.shop", 100_000_000)

    verified.run("ReleaseFunds", settlement=SHOP)

    assert verified.row()["release_at"] == CLAIMED_AT


@pytest.mark.parametrize(
    ("shop", "error"),
    [
        ({"available": 0, "currency": "USD"}, CurrencyMismatch),
        ({"available": 0, "closed_at": "then"}, AccountClosed),
        (None, AccountNotFound),
    ],
)
def test_an_unpayable_merchant_gets_no_new_release(
    verified: Calls, shop: dict[str, Any] | None, error: type[Exception]
) -> None:
    """If the merchant closes after its release, a resumed execution still collects the fee."""

    def change() -> None:
        verified.close("merchant.shop")
        if shop:
            verified.ledger.open("merchant.shop", **shop)

    change()
    with verified.writes_nothing(), pytest.raises(error, match=r"^payee: "):
        verified.run("ReleaseFunds", settlement=SHOP)
    verified.ledger.open("merchant.shop", 0)
    verified.run("ReleaseFunds", settlement=SHOP)
    change()

    with verified.writes_nothing():
        verified.run("ReleaseFunds", settlement=SHOP)
    verified.run("CollectFee", settlement=SHOP)

    assert verified.row()["status"] == "SETTLED"


def test_a_merchant_that_closes_during_a_release_is_still_swept(verified: Calls) -> None:
    def close() -> None:
        verified.ledger.open("merchant.shop", 0, closed_at=CLAIMED_AT)

    verified.meanwhile(_dependencies.store, "transact", close)
    verified.run("ReleaseFunds", settlement=SHOP)
    assert verified.account("merchant.shop")["closed_at"]

    verified.sweep("merchant.shop")

    assert verified.account("merchant.shop")["available"] == NET


def test_a_merchants_release_is_swept_before_a_part_is_taken(paid: Calls) -> None:
    paid.run("CollectFee", settlement=SHOP)
    assert paid.account("merchant.shop")["available"] == 0

    reverse(paid)

    assert paid.account("merchant.shop")["available"] == NET - 500


def test_a_reversal_order_is_refused_if_its_read_is_stale(
    verified: Calls, freeze_reads: Callable[[], None]
) -> None:
    freeze_reads()
    verified.run("ReleaseFunds", "CollectFee", settlement=SHOP)

    with verified.writes_nothing(), pytest.raises(NotReversible, match=r"and it is PROCESSING$"):
        reverse(verified)
