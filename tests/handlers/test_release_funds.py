import pytest

from settlement.core.model.errors import CapExceeded
from tests.handlers.conftest import Calls
from tests.world.constants import CLAIMED_AT


def test_the_first_call_releases_the_amount_less_the_fee(calls: Calls) -> None:
    calls.before("ReleaseFunds")

    assert calls("ReleaseFunds") is None

    assert (calls.entry("release")["credit"], calls.entry("release")["amount"]) == ("bob", 4772)
    assert calls.account("bob")["available"] == 5272
    assert (calls.row()["escrow"], calls.row()["release_at"]) == (48, CLAIMED_AT)


def test_a_release_above_the_stages_highest_balance_is_refused(calls: Calls) -> None:
    calls.before("ReleaseFunds")
    calls.ledger.open("bob", 100_000_000 - 4771)

    with calls.writes_nothing(), pytest.raises(CapExceeded):
        calls("ReleaseFunds")
