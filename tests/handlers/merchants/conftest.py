import pytest

from settlement.core.ledger import keys
from tests.handlers.conftest import Calls
from tests.world.constants import CLAIMED_AT, KEY, WIRE

SHOP = WIRE | {"payee": "merchant.shop"}
NET = 4772
ENTRY = keys.entry("merchant.shop", CLAIMED_AT, KEY, "release")


@pytest.fixture
def verified(calls: Calls) -> Calls:
    """A settlement before its release to a merchant with balance 0."""
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("merchant.shop", 0)
    calls.run("HoldFunds", "VerifyKyc", settlement=SHOP)
    return calls


@pytest.fixture
def paid(verified: Calls) -> Calls:
    """A settlement released to a merchant, and not yet swept."""
    verified.run("ReleaseFunds", settlement=SHOP)
    return verified
