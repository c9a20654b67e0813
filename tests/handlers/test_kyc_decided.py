"""KycDecided: the provider's webhook has one effect, for any number and any order of calls."""

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from handlers import kyc_decided
from settlement.ledger import keys
from settlement.model.errors import SettlementError
from settlement.model.status import Status
from tests.handlers.calls import CLAIMED_AT, KEY, LATER_AT, REJECTED_BY_KYC, WIRE, Calls
from tests.handlers.conftest import Counted
from tests.handlers.stand_ins import OWNER, Secrets, Starts, past, signed

ACCEPTED = {"idempotency_key": f"{KEY}:verify", "decision": "APPROVED"}
STARTED = ("SettlementStandard", OWNER, WIRE)


def event_row(calls: Calls, event: str = "evt_1") -> keys.Row | None:
    return calls.ledger.row(keys.event(event))


def refused(in_review: Calls, event: Any, status: int, error: str, message: str) -> None:
    """Check that the call is refused with this answer, and that it writes nothing."""
    with in_review.writes_nothing():
        answered, content = in_review.decided(event)
    assert (answered, content["error"]) == (status, error)
    assert message in content["message"]


def test_an_approval_is_recorded_with_its_event_and_the_settlement_resumes(
    in_review: Calls, starts: Starts, counted: Counted, later: Callable[..., None]
) -> None:
    before = in_review.row()
    later()
    counted()

    assert in_review.decided(replace(signed, at=past(seconds=7))()) == (200, ACCEPTED)

    decided = {
        "verdict": "APPROVED",
        "steps": {"hold", "verify"},
        "owner": OWNER,
        "owner_epoch": 1,
        "deadline_at": LATER_AT.replace("12:00", "12:15"),
        "in_flight_since": LATER_AT,
        "gsi1sk": LATER_AT.replace("00:07", "00:37"),
    }
    assert in_review.row() == {name: before[name] for name in before if name != "review"} | decided
    assert starts.made == [STARTED]
    assert counted() == {"StepCalled": 1}


def test_the_entry_and_the_marker_of_the_event_have_the_verdict_on_record(in_review: Calls) -> None:
    in_review.decided(signed(reason="seen\x1b[31m by a person"))

    assert in_review.entry("verify") == {
        "posted_at": CLAIMED_AT,
        "decision": "APPROVED",
        "reference": "ver_1",
        "reason": "seen [31m by a person",
        "provider": "webhook",
    }
    marker = event_row(in_review)
    assert marker is not None
    assert (marker["key"], marker["received_at"]) == (KEY, CLAIMED_AT)


def test_a_rejection_is_recorded_and_the_settlement_resumes_towards_its_reversal(
    in_review: Calls, starts: Starts
) -> None:
    assert in_review.decided(signed(decision="REJECTED")) == (200, ACCEPTED | {"decision": "REJECTED"})

    row = in_review.row()
    assert (row["verdict"], row["steps"], row["status"]) == ("REJECTED", {"hold"}, Status.PROCESSING)
    assert starts.made == [STARTED]


def test_the_started_execution_runs_the_settlement_to_its_end(in_review: Calls) -> None:
    in_review.decided(signed())

    claimed = in_review("ClaimKey", execution=OWNER)
    for state in ("HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"):
        in_review(state, execution=OWNER, claimed_at=CLAIMED_AT)

    assert claimed["replayed"] is False
    assert (in_review.row()["status"], in_review.account("bob")["available"]) == ("SETTLED", 500 + 4772)


@pytest.mark.parametrize("before_our_own_request", [True, False])
def test_a_webhook_may_come_before_the_wait_for_it(
    calls: Calls, secrets: Secrets, starts: Starts, before_our_own_request: bool
) -> None:
    calls.before("VerifyKyc" if before_our_own_request else "ReleaseFunds")

    assert calls.decided(signed()) == (200, ACCEPTED)

    assert calls.row()["verdict"] == "APPROVED"
    assert calls.row()["owner"] == (OWNER if before_our_own_request else "execution-1")
    assert starts.made == [STARTED]


@pytest.mark.parametrize("decision", ["APPROVED", "REJECTED"])
def test_the_same_event_again_writes_nothing_and_only_starts(
    in_review: Calls, starts: Starts, later: Callable[..., None], decision: str
) -> None:
    first = in_review.decided(signed(decision=decision))
    later(minutes=4)

    with in_review.writes_nothing():
        assert in_review.decided(signed(decision=decision)) == first
        assert in_review.decided(replace(signed, at=past(minutes=4))(decision=decision)) == first

    assert (starts.made, starts.asked) == ([STARTED], 3)


def test_another_event_with_the_same_decision_writes_nothing(in_review: Calls, starts: Starts) -> None:
    in_review.decided(signed())

    with in_review.writes_nothing():
        assert in_review.decided(replace(signed, id="evt_2")()) == (200, ACCEPTED)

    assert starts.made == [STARTED]


@pytest.mark.parametrize("state", ["CollectFee", "compensated"])
def test_an_event_that_comes_again_after_the_end_changes_nothing(in_review: Calls, state: str) -> None:
    in_review.decided(signed())
    if state == "compensated":
        in_review.unwind(in_review.begin(error=REJECTED_BY_KYC))
    else:
        for step in ("ReleaseFunds", "CollectFee"):
            in_review(step, execution=OWNER, claimed_at=CLAIMED_AT)

    with in_review.writes_nothing():
        assert in_review.decided(signed()) == (200, ACCEPTED)


@pytest.mark.parametrize(("first", "then"), [("APPROVED", "REJECTED"), ("REJECTED", "APPROVED")])
def test_a_second_event_that_decides_otherwise_is_refused(
    in_review: Calls, starts: Starts, first: str, then: str
) -> None:
    in_review.decided(signed(decision=first))
    other = replace(signed, id="evt_2")(decision=then)

    refused(in_review, other, 409, "IdempotencyConflict", f"decision: {first} is on record, for good")

    assert starts.asked == 1


@pytest.mark.parametrize("event", ["evt_2", "evt_1"])
def test_a_contradiction_is_counted_and_logged_without_its_reason(
    in_review: Calls, counted: Counted, log: io.StringIO, event: str
) -> None:
    in_review.decided(replace(signed, id="evt_1")())
    counted()

    other = replace(signed, id=event)(decision="REJECTED", reason="a listed person")
    assert in_review.decided(other)[0] == 409

    assert counted()["KycVerdictConflict"] == 1
    logged = log.getvalue()
    assert '"message":"conflict"' in logged
    assert "a listed person" not in logged


def test_a_verdict_that_is_repeated_is_no_contradiction(in_review: Calls, counted: Counted) -> None:
    in_review.decided(signed())
    counted()

    in_review.decided(replace(signed, id="evt_2")())

    assert "KycVerdictConflict" not in counted()


def test_the_id_of_an_event_is_refused_with_other_content(in_review: Calls) -> None:
    in_review.decided(signed())

    refused(in_review, signed(decision="REJECTED"), 409, "IdempotencyConflict", "webhook-id: was used before")
    refused(in_review, signed(reason="other"), 409, "IdempotencyConflict", "webhook-id: was used before")


def test_the_id_of_an_event_is_refused_for_another_settlement(in_review: Calls) -> None:
    other = WIRE | {"key": "order-2026-000202"}
    in_review("ClaimKey", other)
    in_review("HoldFunds", other)
    in_review.decided(signed())

    again = signed(idempotency_key="order-2026-000202:verify")

    refused(in_review, again, 409, "IdempotencyConflict", "webhook-id: was used before")


def test_a_verdict_on_another_verification_is_refused(in_review: Calls, starts: Starts) -> None:
    refused(in_review, signed(reference="ver_2"), 409, "StepFenced", "waits for another verification")

    assert starts.asked == 0


def test_a_verdict_on_an_unclaimed_key_is_refused(in_review: Calls, starts: Starts) -> None:
    unknown = signed(idempotency_key="order-2026-999999:verify")

    message = "idempotency_key: no request has claimed its settlement"
    refused(in_review, unknown, 404, "SettlementNotFound", message)

    assert starts.asked == 0


def test_a_verdict_before_the_hold_is_refused(calls: Calls, secrets: Secrets, starts: Starts) -> None:
    calls.before("HoldFunds")

    refused(calls, signed(), 409, "StepFenced", "the settlement is PROCESSING with steps []")

    assert starts.asked == 0


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PROCESSING])
def test_a_first_verdict_past_processing_is_refused(in_review: Calls, starts: Starts, status: Status) -> None:
    in_review.alter(status=status)

    refused(in_review, signed(), 409, "StepFenced", f"the settlement is {status}")

    assert starts.asked == 0


def test_a_review_may_end_up_to_its_last_moment(in_review: Calls, later: Callable[..., None]) -> None:
    by = {"hours": 23, "minutes": 59, "seconds": 59, "milliseconds": 999}
    later(**by)

    assert in_review.decided(replace(signed, at=past(**by))()) == (200, ACCEPTED)


def test_a_verdict_that_comes_at_the_end_of_the_review_is_too_late(
    in_review: Calls, starts: Starts, later: Callable[..., None]
) -> None:
    later(days=1)
    late = replace(signed, at=past(days=1))()

    refused(
        in_review, late, 409, "DeadlineExceeded", "the settlement's deadline was 2026-11-21T12:00:00.123Z"
    )

    assert starts.asked == 0


def test_every_refusal_of_a_settlement_has_one_http_status() -> None:
    assert {error.__name__: status for error, status in kyc_decided.STATUSES.items()} == {
        "InvalidRequest": 400,
        "SignatureRefused": 401,
        "SettlementNotFound": 404,
        "DeadlineExceeded": 409,
        "IdempotencyConflict": 409,
        "StepFenced": 409,
        "KycUnavailable": 503,
        "StartUnavailable": 503,
        "StoreUnavailable": 503,
    }
    assert all(issubclass(error, SettlementError) for error in kyc_decided.STATUSES)
