"""RecoverStalled: what is held past its deadline is given back, each of it once, whatever ails the others."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from settlement.status import Status
from tests.handlers.calls import KEY, WIRE, Calls
from tests.handlers.conftest import Counted
from tests.handlers.stand_ins import Starts, past, signed, throttled
from tests.support.kyc import REJECTED, Provider

Later = Callable[..., None]

NO_TIME_LEFT = {"Error": "DeadlineExceeded", "Cause": "recover: the time to settle is over"}
REVIEW_OVER = {"Error": "DeadlineExceeded", "Cause": "recover: the review has not ended in time"}
STARTED = ("Compensation", f"{KEY}-compensate-1", {"settlement": WIRE, "error": NO_TIME_LEFT})


@pytest.mark.parametrize("state", ["ClaimKey", "HoldFunds", "VerifyKyc"])
def test_what_is_past_its_deadline_before_its_release_is_reversed(
    calls: Calls, starts: Starts, later: Later, counted: Counted, state: str
) -> None:
    calls.after(state)
    before = calls.row()
    later(minutes=15)
    counted()

    calls.recover()

    assert starts.made == [STARTED]
    taken_on = {
        "recoveries": 1,
        "gsi1sk": "2026-11-20T12:15:30.123Z",
        "given_up_at": "2026-11-20T12:15:00.123Z",
    }
    assert calls.row() == before | taken_on
    assert counted() == {"StepCalled": 1, "RecoveredByCompensation": 1}


def test_the_compensation_that_is_started_gives_the_money_back(
    calls: Calls, starts: Starts, later: Later
) -> None:
    calls.after("HoldFunds")
    later(minutes=15)
    calls.recover()

    calls.unwind(calls.begin(starts.made[0][2]))

    row = calls.row()
    assert (row["status"], row["escrow"], row["failure"]["error"]) == ("COMPENSATED", 0, "DeadlineExceeded")
    assert calls.account("alice") == {"available": 10_000, "currency": "EUR"}


@pytest.mark.parametrize("by", [{"seconds": 29}, {"seconds": 31}, {"minutes": 14, "seconds": 59.999}])
def test_what_has_time_left_is_left_alone(
    calls: Calls, starts: Starts, later: Later, counted: Counted, by: dict[str, float]
) -> None:
    calls.after("HoldFunds")
    later(**by)
    counted()

    with calls.writes_nothing():
        calls.recover()

    assert (starts.asked, counted()) == (0, {"StepCalled": 1})


@pytest.mark.parametrize("state", ["ReleaseFunds", "CollectFee"])
def test_what_is_released_is_left_alone(calls: Calls, starts: Starts, later: Later, state: str) -> None:
    calls.after(state)
    later(days=2)

    with calls.writes_nothing():
        calls.recover()

    assert starts.asked == 0


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PROCESSING])
def test_what_is_past_processing_is_left_alone(
    calls: Calls, starts: Starts, later: Later, status: Status
) -> None:
    calls.after("HoldFunds")
    calls.alter(status=status)
    later(minutes=15)

    with calls.writes_nothing():
        calls.recover()

    assert starts.asked == 0


def test_what_is_in_review_is_left_alone_until_the_review_s_end(
    parked: Calls, starts: Starts, later: Later
) -> None:
    later(hours=23, minutes=59, seconds=59, milliseconds=999)

    with parked.writes_nothing():
        parked.recover()

    assert starts.asked == 0


def test_a_review_that_runs_out_is_reversed_for_that_reason(
    parked: Calls, starts: Starts, later: Later
) -> None:
    later(days=1)

    parked.recover()

    assert starts.made == [(*STARTED[:2], {"settlement": WIRE, "error": REVIEW_OVER})]
    parked.unwind(parked.begin(starts.made[0][2]))
    assert (parked.row()["status"], parked.account("alice")["available"]) == ("COMPENSATED", 10_000)


def test_a_verdict_that_comes_while_a_review_that_ran_out_is_reversed_is_refused(
    parked: Calls, starts: Starts, later: Later
) -> None:
    later(days=1)
    parked.recover()

    with parked.writes_nothing():
        status, content = parked.decided(replace(signed, at=past(days=1))())

    assert (status, content["error"], starts.asked) == (409, "DeadlineExceeded", 1)


@pytest.mark.parametrize("decision", ["APPROVED", "REJECTED"])
def test_what_was_decided_but_never_driven_on_is_reversed_at_its_new_deadline(
    parked: Calls, starts: Starts, later: Later, decision: str
) -> None:
    starts.failure = throttled("StartExecution")
    parked.decided(signed(decision=decision))
    starts.failure = None
    later(minutes=14, seconds=59)
    parked.recover()
    assert starts.made == []
    later(minutes=15)

    parked.recover()

    # Number 1 belongs to the execution that the webhook meant to start, and that might have begun a reversal.
    assert starts.made == [(STARTED[0], f"{KEY}-compensate-2", STARTED[2])]


def test_what_was_rejected_and_never_reversed_is_reversed_at_its_deadline(
    calls: Calls, provider: Provider, starts: Starts, later: Later
) -> None:
    calls.before("VerifyKyc")
    provider.answer = REJECTED
    with pytest.raises(Exception, match="rejected by the provider"):
        calls("VerifyKyc")
    later(minutes=15)

    calls.recover()

    assert starts.made == [STARTED]
