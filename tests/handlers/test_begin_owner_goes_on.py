"""BeginCompensation for the owner itself: what is released or in review goes on, whatever its owner met."""

from typing import Any

import pytest

from tests.handlers.calls import CLAIMED_AT, REJECTED_BY_KYC, Calls
from tests.handlers.conftest import Counted
from tests.handlers.stand_ins import OWNER, signed
from tests.handlers.test_begin_owner import MINE, nothing_to_do


@pytest.mark.parametrize("more", [{"owner": None}, {}])
def test_after_the_release_whoever_names_no_owner_still_gets_everything_back(
    calls: Calls, more: dict[str, Any]
) -> None:
    calls.after("ReleaseFunds")

    calls.unwind(calls.begin(error=REJECTED_BY_KYC, **more))

    assert (calls.row()["status"], calls.row()["escrow"]) == ("COMPENSATED", 0)
    assert calls.account("bob") == {"available": 500, "currency": "EUR"}


def test_after_the_release_its_own_execution_reverses_nothing_and_there_is_no_way_but_on(
    calls: Calls, counted: Counted
) -> None:
    calls.after("ReleaseFunds")
    counted()

    with calls.writes_nothing():
        assert calls.begin(**MINE) == nothing_to_do("ReleaseFunds")
        assert calls("ReportOutcome", replayed=False)["status"] == "PROCESSING"

    assert counted() == {"StepCalled": 2}
    calls("CollectFee", claimed_at=CLAIMED_AT)
    assert (calls.row()["status"], calls.row()["escrow"]) == ("SETTLED", 0)
    assert calls.account("bob") == {"available": 500 + 4772, "currency": "EUR"}


def test_a_release_that_commits_while_its_own_execution_asks_is_not_reversed(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.after("VerifyKyc")
    store = calls.ledger.store.__class__
    update = store.update

    def released_first(self: Any, write: Any) -> Any:
        monkeypatch.setattr(store, "update", update)
        calls("ReleaseFunds")
        return self.update(write)

    monkeypatch.setattr(store, "update", released_first)

    with pytest.warns(UserWarning, match="No application metrics"):  # the step has published them all
        found = calls.begin(**MINE)

    assert found == nothing_to_do("ReleaseFunds")


def test_what_is_in_review_its_own_execution_does_not_reverse_and_the_verdict_decides(
    parked: Calls,
) -> None:
    with parked.writes_nothing():
        assert parked.begin(**MINE) == nothing_to_do("HoldFunds")
        assert parked("ReportOutcome", replayed=False)["status"] == "PROCESSING"

    assert parked.decided(signed())[0] == 200
    assert (parked.row()["owner"], parked.row()["status"]) == (OWNER, "PROCESSING")
