import pytest

from handlers import _dependencies
from settlement.core.model import errors
from tests.handlers.accounts.test_take_account_order import CLOSE
from tests.handlers.conftest import Calls
from tests.world.constants import CLAIMED_AT, WIRE


def test_a_closed_merchant_is_refused_its_release(calls: Calls) -> None:
    shop = WIRE | {"payee": "merchant.shop"}
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("merchant.shop", 0)
    for state in ("HoldFunds", "VerifyKyc"):
        calls(state, shop, claimed_at=CLAIMED_AT)
    calls.administer(CLOSE | {"account": "merchant.shop"})

    with calls.writes_nothing(), pytest.raises(errors.AccountClosed, match=r"^payee: "):
        calls("ReleaseFunds", shop, claimed_at=CLAIMED_AT)


def test_a_merchant_that_closes_during_a_release_is_still_swept(calls: Calls) -> None:
    shop = WIRE | {"payee": "merchant.shop"}
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("merchant.shop", 0)
    for state in ("HoldFunds", "VerifyKyc"):
        calls(state, shop, claimed_at=CLAIMED_AT)

    def close() -> None:
        calls.ledger.open("merchant.shop", 0, closed_at=CLAIMED_AT)

    calls.meanwhile(_dependencies.store, "transact", close)
    calls("ReleaseFunds", shop, claimed_at=CLAIMED_AT)
    assert calls.account("merchant.shop")["closed_at"]

    calls.sweep("merchant.shop")

    assert calls.account("merchant.shop")["available"] == 4772
