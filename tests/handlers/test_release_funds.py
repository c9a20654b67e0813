import pytest

from settlement.core.model.errors import (
    CapExceeded,
)
from tests.handlers.conftest import Calls, entry
from tests.world.constants import CLAIMED_AT, KEY


def test_the_first_call_releases_the_amount_less_the_fee(calls: Calls) -> None:
    calls.before("ReleaseFunds")

    assert calls("ReleaseFunds") is None

    released = entry("release", CLAIMED_AT, debit=f"escrow:{KEY}", credit="bob", amount=4772, of="bob")
    assert released in calls.ledger.rows()
    assert calls.account("bob")["available"] == 5272
    assert (calls.row()["escrow"], calls.row()["release_at"]) == (48, CLAIMED_AT)


def test_no_payee_is_released_more_than_the_stage_allows(calls: Calls) -> None:
    calls.before("ReleaseFunds")
    calls.ledger.open("bob", 100_000_000 - 4771)

    with calls.writes_nothing(), pytest.raises(CapExceeded):
        calls("ReleaseFunds")
