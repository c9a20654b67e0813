"""RecoverStalled: a stalled settlement is resumed once, or refunded after its deadline."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from settlement.model.errors import KycRejected
from settlement.model.status import Status
from tests.handlers.calls import CLAIMED_AT, KEY, REVERSALS, WIRE, Calls, run
from tests.handlers.conftest import Counted
from tests.handlers.stand_ins import Starts, past, signed, throttled
from tests.support.kyc import REJECTED, Provider

Later = Callable[..., None]

NO_TIME_LEFT = {"Error": "DeadlineExceeded", "Cause": "recover: the time to settle is over"}
REVIEW_OVER = {"Error": "DeadlineExceeded", "Cause": "recover: the review has not ended in time"}
STARTED = ("Compensation", f"{KEY}-compensate-1", {"settlement": WIRE, "error": NO_TIME_LEFT})
RESUMED = ("SettlementStandard", f"{KEY}-r1", WIRE)

STATES = ("ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee")


@pytest.mark.parametrize("state", ["ClaimKey", "HoldFunds", "VerifyKyc"])
def test_a_settlement_with_time_left_is_resumed_by_a_new_owner(
    calls: Calls, starts: Starts, later: Later, counted: Counted, state: str
) -> None:
    calls.after(state)
    before = calls.row()
    later(seconds=30)
    counted()

    calls.recover()

    assert starts.made == [RESUMED]
    taken_on = {"owner_epoch": 1, "owner": f"{KEY}-r1", "gsi1sk": "2026-11-20T12:01:30.123Z"}
    assert calls.row() == before | taken_on
    assert counted() == run(RecoveredBySettlement=1, Recoveries=1, OldestInFlightSeconds=30)


@pytest.mark.parametrize("state", STATES[:-1])
def test_the_new_owner_resumes_after_the_last_step_and_the_old_one_gets_a_replay(
    calls: Calls, starts: Starts, provider: Provider, later: Later, state: str
) -> None:
    calls.after(state)
    later(seconds=30)
    calls.recover()

    assert calls("ClaimKey")["replayed"]
    claimed = calls("ClaimKey", starts.made[0][2], execution=f"{KEY}-r1")
    assert (claimed["replayed"], claimed["owner_epoch"]) == (False, 1)
    for following in STATES[1:]:
        calls(following, claimed["settlement"], execution=f"{KEY}-r1", claimed_at=CLAIMED_AT)

    assert (calls.row()["status"], calls.row()["escrow"], provider.asked) == ("SETTLED", 0, [KEY])
    assert calls.account("alice") == {"available": 10_000 - 4820, "currency": "EUR"}
    assert calls.account("bob") == {"available": 500 + 4772, "currency": "EUR"}


@pytest.mark.parametrize("state", ["ClaimKey", "HoldFunds", "VerifyKyc"])
def test_an_unreleased_settlement_past_its_deadline_is_reversed(
    calls: Calls, starts: Starts, later: Later, counted: Counted, state: str
) -> None:
    calls.after(state)
    before = calls.row()
    later(minutes=15)
    counted()

    calls.recover()

    assert starts.made == [STARTED]
    taken_on = {
        "owner_epoch": 1,
        "owner": f"{KEY}-compensate-1",
        "gsi1sk": "2026-11-20T12:16:00.123Z",
        "expired_at": "2026-11-20T12:15:00.123Z",
    }
    assert calls.row() == before | taken_on
    assert counted() == run(RecoveredByCompensation=1, Recoveries=1, OldestInFlightSeconds=900)


def test_the_started_compensation_refunds_the_payer(calls: Calls, starts: Starts, later: Later) -> None:
    calls.after("HoldFunds")
    later(minutes=15)
    calls.recover()

    calls.unwind(calls.begin(starts.made[0][2]))

    row = calls.row()
    assert (row["status"], row["escrow"], row["failure"]["error"]) == ("COMPENSATED", 0, "DeadlineExceeded")
    assert calls.account("alice") == {"available": 10_000, "currency": "EUR"}


@pytest.mark.parametrize("by", [{"seconds": 0}, {"seconds": 29, "milliseconds": 999}, {"hours": -1}])
def test_a_settlement_that_is_not_due_is_left_alone(
    calls: Calls, starts: Starts, later: Later, counted: Counted, by: dict[str, float]
) -> None:
    calls.after("HoldFunds")
    later(**by)
    counted()

    with calls.writes_nothing():
        calls.recover()

    assert (starts.asked, starts.described, counted()) == (0, [], run())


def test_a_released_settlement_runs_on_to_its_fee_at_any_time(
    calls: Calls, starts: Starts, later: Later, counted: Counted
) -> None:
    calls.after("ReleaseFunds")
    before = calls.row()
    later(days=2)
    counted()

    calls.recover()

    assert starts.made == [RESUMED]
    taken_on = {"owner_epoch": 1, "owner": f"{KEY}-r1", "gsi1sk": "2026-11-22T12:01:00.123Z"}
    assert calls.row() == before | taken_on
    assert counted() == run(RecoveredBySettlement=1, Recoveries=1, OldestInFlightSeconds=172_800)


def test_a_settled_settlement_is_left_alone(
    calls: Calls, starts: Starts, later: Later, counted: Counted
) -> None:
    calls.after("CollectFee")
    later(days=2)
    counted()

    with calls.writes_nothing():
        calls.recover()

    assert (starts.asked, counted()) == (0, run())


@pytest.mark.parametrize("status", [Status.SETTLED, Status.REJECTED, Status.COMPENSATED])
def test_a_finished_settlement_is_left_alone_even_if_the_index_lists_it(
    calls: Calls, starts: Starts, later: Later, status: Status
) -> None:
    calls.after("HoldFunds")
    calls.alter(status=status)
    later(minutes=15)

    with calls.writes_nothing():
        calls.recover()

    assert (starts.asked, starts.described) == (0, [])


def test_a_settlement_that_never_ends_is_resumed_less_and_less_often_and_refunded_at_its_deadline(
    calls: Calls, starts: Starts, later: Later
) -> None:
    calls.after("HoldFunds")
    started: dict[str, int] = {}

    for minute in range(16):
        later(minutes=minute)
        calls.recover()
        started |= {name: minute for name in starts.names if name not in started}

    resumed = {f"{KEY}-r1": 1, f"{KEY}-r2": 2, f"{KEY}-r3": 4, f"{KEY}-r4": 8}
    assert started == resumed | {f"{KEY}-compensate-5": 15}


def test_a_deadline_that_the_request_names_binds_recovery_too(
    calls: Calls, starts: Starts, later: Later
) -> None:
    request = WIRE | {"deadline_seconds": 45}
    calls("ClaimKey", request)

    later(seconds=30)
    calls.recover()
    assert (starts.made, calls.row()["gsi1sk"]) == ([(*RESUMED[:2], request)], "2026-11-20T12:00:45.123Z")
    assert not calls("ClaimKey", starts.made[0][2], execution=f"{KEY}-r1")["replayed"]
    later(seconds=45)
    calls.recover()

    compensation = {"settlement": request, "error": NO_TIME_LEFT}
    assert starts.made[1:] == [("Compensation", f"{KEY}-compensate-2", compensation)]
    found = calls.begin(compensation)
    for reversal in REVERSALS:
        calls.reverse(reversal, found, request)
    assert calls.row()["status"] == "COMPENSATED"


def test_a_settlement_in_review_is_left_alone_until_the_end_of_the_review(
    in_review: Calls, starts: Starts, later: Later
) -> None:
    later(hours=23, minutes=59, seconds=59, milliseconds=999)

    with in_review.writes_nothing():
        in_review.recover()

    assert starts.asked == 0


def test_an_expired_review_is_reversed_for_that_reason(
    in_review: Calls, starts: Starts, later: Later
) -> None:
    later(days=1)

    in_review.recover()

    assert starts.made == [(*STARTED[:2], {"settlement": WIRE, "error": REVIEW_OVER})]
    in_review.unwind(in_review.begin(starts.made[0][2]))
    assert (in_review.row()["status"], in_review.account("alice")["available"]) == ("COMPENSATED", 10_000)


def test_a_verdict_on_an_expired_review_is_refused(in_review: Calls, starts: Starts, later: Later) -> None:
    later(days=1)
    in_review.recover()

    with in_review.writes_nothing():
        status, content = in_review.decided(replace(signed, at=past(days=1))())

    assert (status, content["error"], starts.asked) == (409, "DeadlineExceeded", 1)


@pytest.mark.parametrize("decision", ["APPROVED", "REJECTED"])
def test_a_settlement_whose_verdict_started_no_execution_is_resumed(
    in_review: Calls, starts: Starts, later: Later, counted: Counted, decision: str
) -> None:
    starts.failure = throttled("StartExecution")
    in_review.decided(signed(decision=decision))
    starts.failure = None
    later(seconds=29)
    in_review.recover()
    assert starts.made == []
    later(seconds=30)
    counted()

    in_review.recover()

    # Epoch 1 belongs to the execution of the webhook, which may have begun a reversal.
    assert starts.made == [(RESUMED[0], f"{KEY}-r2", WIRE)]
    assert counted() == run(RecoveredBySettlement=1, Recoveries=1, OldestInFlightSeconds=30)
    assert not in_review("ClaimKey", execution=f"{KEY}-r2")["replayed"]
    if decision == "REJECTED":
        with pytest.raises(KycRejected):
            in_review("VerifyKyc", execution=f"{KEY}-r2")


@pytest.mark.parametrize("decision", ["APPROVED", "REJECTED"])
def test_a_settlement_whose_verdict_started_no_execution_is_reversed_at_its_new_deadline(
    in_review: Calls, starts: Starts, later: Later, decision: str
) -> None:
    starts.failure = throttled("StartExecution")
    in_review.decided(signed(decision=decision))
    starts.failure = None
    later(minutes=15)

    in_review.recover()

    assert starts.made == [(STARTED[0], f"{KEY}-compensate-2", STARTED[2])]


def test_a_rejected_settlement_that_was_never_reversed_is_reversed_at_its_deadline(
    calls: Calls, provider: Provider, starts: Starts, later: Later
) -> None:
    calls.before("VerifyKyc")
    provider.answer = REJECTED
    with pytest.raises(Exception, match="rejected by the provider"):
        calls("VerifyKyc")
    later(minutes=15)

    calls.recover()

    assert starts.made == [STARTED]
