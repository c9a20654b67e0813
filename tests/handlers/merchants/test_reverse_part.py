from collections.abc import Callable

import pytest

from settlement.core.model.errors import (
    NotReversible,
)
from tests.handlers.conftest import Calls
from tests.handlers.orders.test_reverse_part import NET, reverse
from tests.world.constants import WIRE

SHOP = WIRE | {"payee": "merchant.shop"}


def test_a_merchants_release_is_swept_before_a_part_is_taken(calls: Calls) -> None:
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("merchant.shop", 0)
    for state in ("HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"):
        calls(state, SHOP, claimed_at="2026-11-20T12:00:00.123Z")
    assert calls.account("merchant.shop")["available"] == 0

    reverse(calls)

    assert calls.account("merchant.shop")["available"] == NET - 500


def test_a_merchants_unseen_release_is_no_lack_of_funds(
    calls: Calls, freeze_reads: Callable[[], None]
) -> None:
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("merchant.shop", 0)
    steps = ("HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee")
    for state in steps:
        calls(state, SHOP, claimed_at="2026-11-20T12:00:00.123Z")
        if state == "VerifyKyc":
            freeze_reads()

    with calls.writes_nothing(), pytest.raises(NotReversible, match=r"and it is PROCESSING$"):
        reverse(calls)
