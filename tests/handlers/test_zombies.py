"""A function that outlives its task: its late write is refused and counted, and moves nothing."""

from collections.abc import Callable

import pytest

from settlement.model.errors import StepFenced
from tests.handlers.calls import (
    CLAIMED_AT,
    EXECUTION_ARN,
    ORDER,
    REJECTED_BY_KYC,
    REVERSALS,
    SPENT,
    Calls,
)

LAST_BEFORE = {
    "HoldFunds": "ClaimKey",
    "VerifyKyc": "HoldFunds",
    "ReleaseFunds": "VerifyKyc",
    "CollectFee": "ReleaseFunds",
}
"""Each forward step, and the last committed state when it is late."""

MOMENTS = ["RefundFee", "ReclaimFunds", "VoidHold", None]
"""The reversal before which the zombie writes; None for the end."""

Counted = Callable[[], dict[str, float]]


@pytest.mark.parametrize("zombie", LAST_BEFORE)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_step_that_comes_late_is_fenced_between_any_two_reversals(
    calls: Calls, zombie: str, moment: str | None, counted: Counted
) -> None:
    calls.after(LAST_BEFORE[zombie])
    found = calls.begin(error=REJECTED_BY_KYC)
    calls.unwind(found, moment)
    counted()

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls(zombie, claimed_at=CLAIMED_AT)

    assert counted() == {"StepCalled": 1, "StepFenced": 1}
    calls.unwind(found)
    assert calls.account("alice") == {"available": 10_000, "currency": "EUR"}
    assert calls.account("bob") == {"available": 500, "currency": "EUR"}
    assert (calls.row()["status"], calls.row()["escrow"]) == ("COMPENSATED", 0)


@pytest.mark.parametrize("zombie", LAST_BEFORE)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_step_that_commits_at_the_last_moment_is_reversed_and_its_own_replay_moves_nothing(
    calls: Calls, zombie: str, moment: str | None, counted: Counted
) -> None:
    calls.after(zombie)
    reversal = {"reversal": ORDER} if zombie == "CollectFee" else {"error": REJECTED_BY_KYC}
    found = calls.begin(**reversal)
    calls.unwind(found, moment)
    counted()

    with calls.writes_nothing():
        calls(zombie, claimed_at=CLAIMED_AT)

    assert counted() == {"StepCalled": 1, "StepReplayed": 1}
    calls.unwind(found)
    assert calls.account("alice") == {"available": 10_000, "currency": "EUR"}
    assert calls.account("bob") == {"available": 500, "currency": "EUR"}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_rejection_that_comes_late_is_fenced(calls: Calls, moment: str | None, counted: Counted) -> None:
    calls.before("HoldFunds")
    calls.unwind(calls.begin(error=REJECTED_BY_KYC), moment)
    counted()

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls("RejectSettlement", error=SPENT)

    assert counted() == {"StepCalled": 1, "StepFenced": 1}


@pytest.mark.parametrize("zombie", LAST_BEFORE)
@pytest.mark.parametrize("decision", [None, "retry"])
def test_a_step_that_comes_late_is_fenced_by_limbo_and_by_the_way_out_of_it(
    calls: Calls, zombie: str, decision: str | None, counted: Counted
) -> None:
    calls.after(LAST_BEFORE[zombie])
    step = "release" if zombie == "CollectFee" else "hold"
    calls.limbo(calls.begin(error=REJECTED_BY_KYC), step=step)
    if decision:
        calls.resolve(decision)
    counted()

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls(zombie, claimed_at=CLAIMED_AT)

    assert counted() == {"StepCalled": 1, "StepFenced": 1}


def test_a_fee_that_comes_late_is_not_taken_from_what_a_person_has_completed(
    calls: Calls, counted: Counted
) -> None:
    calls.fall("release")
    calls.resolve("complete")
    counted()

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls("CollectFee", claimed_at=CLAIMED_AT)

    assert counted() == {"StepCalled": 1, "StepFenced": 1}


@pytest.mark.parametrize("decision", [None, "write-off", "complete"])
def test_a_reversal_that_comes_late_is_fenced_by_limbo_and_by_what_a_person_decided(
    calls: Calls, decision: str | None, counted: Counted
) -> None:
    found = calls.fall("release")
    if decision:
        calls.resolve(decision)
    counted()

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls.reverse("ReclaimFunds", found)

    assert counted() == {"StepCalled": 1, "StepFenced": 1}
    assert calls.account("bob")["available"] == 5272


@pytest.mark.parametrize("state", REVERSALS)
def test_a_reversal_that_comes_late_after_its_second_try_is_a_replay(
    calls: Calls, state: str, counted: Counted
) -> None:
    found = calls.reopened("RefundFee")
    calls.unwind(calls.begin())
    counted()

    with calls.writes_nothing():
        calls.reverse(state, found)

    assert counted() == {"StepCalled": 1, "StepReplayed": 1}


def test_a_late_case_a_late_alert_and_a_late_token_are_fenced_after_a_decision(
    calls: Calls, counted: Counted
) -> None:
    found = calls.fall("release")
    calls.resolve("retry")
    counted()

    with calls.writes_nothing():
        with pytest.raises(StepFenced):
            calls.limbo(found)
        with pytest.raises(StepFenced):
            calls.alert(found)
        with pytest.raises(StepFenced):
            calls("AwaitResolution", token="AQC", execution_arn=EXECUTION_ARN)

    assert counted() == {"StepCalled": 3, "StepFenced": 3}


def test_a_fence_that_comes_late_does_not_lead_out_of_limbo(calls: Calls, counted: Counted) -> None:
    calls.fall("release")
    counted()

    with calls.writes_nothing():
        assert calls.begin(error=REJECTED_BY_KYC)["in_limbo"] is True

    assert counted() == {"StepCalled": 1}
