"""BeginCompensation for the owner: a settlement that is released or in review continues after any error."""

from typing import Any

import pytest

from tests.handlers.calls import CLAIMED_AT, REJECTED_BY_KYC, Calls
from tests.handlers.conftest import Counted
from tests.handlers.stand_ins import OWNER, signed
from tests.handlers.test_begin_owner import MINE, nothing_to_do


@pytest.mark.parametrize("more", [{"owner": None}, {}])
def test_after_the_release_a_caller_without_a_name_still_compensates(
    calls: Calls, more: dict[str, Any]
) -> None:
    calls.after("ReleaseFunds")

    calls.unwind(calls.begin(error=REJECTED_BY_KYC, **more))

    assert (calls.row()["status"], calls.row()["escrow"]) == ("COMPENSATED", 0)
    assert calls.account("bob") == {"available": 500, "currency": "EUR"}


def test_after_the_release_the_owner_reverses_nothing_and_the_settlement_runs_forward(
    calls: Calls, counted: Counted
) -> None:
    calls.after("ReleaseFunds")
    counted()

    with calls.writes_nothing():
        assert calls.begin(**MINE) == nothing_to_do("ReleaseFunds")
        assert calls.report(replayed=False, error=REJECTED_BY_KYC)["status"] == "PROCESSING"

    assert counted() == {"StepCalled": 2}
    calls("CollectFee", claimed_at=CLAIMED_AT)
    assert (calls.row()["status"], calls.row()["escrow"]) == ("SETTLED", 0)
    assert calls.account("bob") == {"available": 500 + 4772, "currency": "EUR"}


def test_a_release_that_commits_while_its_owner_asks_for_a_reversal_is_not_reversed(
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

    with pytest.warns(UserWarning, match="No application metrics"):  # the step has published all of them
        found = calls.begin(**MINE)

    assert found == nothing_to_do("ReleaseFunds")


def test_a_settlement_in_review_is_not_reversed_by_its_owner_and_waits_for_the_verdict(
    in_review: Calls,
) -> None:
    with in_review.writes_nothing():
        assert in_review.begin(**MINE) == nothing_to_do("HoldFunds")
        assert in_review.report(replayed=False, error=REJECTED_BY_KYC)["status"] == "PROCESSING"

    assert in_review.decided(signed())[0] == 200
    assert (in_review.row()["owner"], in_review.row()["status"]) == (OWNER, "PROCESSING")
