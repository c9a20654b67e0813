"""VerifyKyc: the provider is asked once, and its verdict is on record for ever."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.model.errors import (
    DeadlineExceeded,
    IdempotencyConflict,
    InvalidRequest,
    KycCircuitOpen,
    KycRejected,
    KycRequestRefused,
    KycUnavailable,
    SettlementError,
    StepFenced,
)
from settlement.model.status import Status
from tests.handlers.calls import (
    CLAIMED_AT,
    KEY,
    LATER_AT,
    MALFORMED_SETTLEMENTS,
    OTHER_CONTENT,
    WIRE,
    Calls,
)
from tests.handlers.conftest import Counted
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED, Provider

EVIDENCE = {
    "posted_at": CLAIMED_AT,
    "decision": "APPROVED",
    "reference": "ver_1",
    "reason": "nothing is known",
    "provider": "verifications",
}
VERDICT = {"in_review": False}
"""The answer; the provider's verdict itself stays in the journal."""

DEAD = KycUnavailable("kyc: ConnectTimeoutError")
REVIEW_ENDS = "2026-11-21T12:00:00.123Z"


def test_the_first_call_records_the_verdict(calls: Calls, provider: Provider) -> None:
    calls.before("VerifyKyc")

    assert calls("VerifyKyc") == VERDICT

    row = calls.row()
    assert calls.entry("verify") == EVIDENCE
    assert (row["escrow"], row["steps"], row["verdict"]) == (4820, {"hold", "verify"}, "APPROVED")
    assert "review" not in row
    assert provider.asked == [KEY]


def test_a_rejection_is_on_record_and_does_not_commit_the_step(calls: Calls, provider: Provider) -> None:
    calls.before("VerifyKyc")
    provider.answer = REJECTED

    with pytest.raises(KycRejected, match=r"^kyc: rejected by the provider; its reference is ver_1$"):
        calls("VerifyKyc")

    row = calls.row()
    assert (row["status"], row["escrow"], row["steps"]) == (Status.PROCESSING, 4820, {"hold"})
    assert (row["verdict"], calls.entry("verify")["decision"]) == ("REJECTED", "REJECTED")


def test_a_review_keeps_the_settlement_until_its_end(
    calls: Calls, provider: Provider, counted: Counted
) -> None:
    calls.before("VerifyKyc")
    before = calls.row()
    provider.answer = IN_REVIEW
    counted()

    assert calls("VerifyKyc") == {"in_review": True}

    until = ("deadline_at", "in_flight_since", "gsi1sk")
    in_review = {"review": "ver_1"} | dict.fromkeys(until, REVIEW_ENDS)
    assert calls.row() == before | in_review
    assert "verify" not in calls.entries()
    assert counted() == {"StepCalled": 1, "KycReview": 1}


@pytest.mark.parametrize(
    "error", [DEAD, KycCircuitOpen("kyc: not asked"), KycRequestRefused("kyc: refused with status 422")]
)
def test_without_a_verdict_nothing_is_written_and_it_is_asked_again(
    calls: Calls, provider: Provider, error: SettlementError
) -> None:
    calls.before("VerifyKyc")
    provider.answer = error

    with calls.writes_nothing(), pytest.raises(type(error)):
        calls("VerifyKyc")
    provider.answer = APPROVED

    assert calls("VerifyKyc") == VERDICT
    assert provider.asked == [KEY, KEY]


def test_an_approval_is_asked_for_once_and_replayed_even_if_the_provider_is_dead(
    calls: Calls, provider: Provider, later: Callable[..., None]
) -> None:
    calls.after("VerifyKyc")
    provider.answer = DEAD

    for days in (0, 1, 400):
        later(days=days)
        with calls.writes_nothing():
            assert calls("VerifyKyc") == VERDICT

    assert provider.asked == [KEY]


def test_a_rejection_is_asked_for_once_and_replayed_even_if_the_provider_would_approve_now(
    calls: Calls, provider: Provider, later: Callable[..., None]
) -> None:
    calls.before("VerifyKyc")
    provider.answer = REJECTED
    with pytest.raises(KycRejected):
        calls("VerifyKyc")
    provider.answer = APPROVED

    for days in (0, 400):
        later(days=days)
        with calls.writes_nothing(), pytest.raises(KycRejected, match="ver_1"):
            calls("VerifyKyc")

    assert provider.asked == [KEY]


def test_a_replay_is_counted_as_one(calls: Calls, counted: Counted) -> None:
    calls.after("VerifyKyc")
    counted()

    calls("VerifyKyc")

    assert counted() == {"StepCalled": 1, "StepReplayed": 1}


def test_a_settlement_in_review_is_not_asked_about_again(
    calls: Calls, provider: Provider, later: Callable[..., None]
) -> None:
    calls.before("VerifyKyc")
    provider.answer = IN_REVIEW
    calls("VerifyKyc")
    provider.answer = APPROVED
    later(hours=23)

    with calls.writes_nothing():
        assert calls("VerifyKyc") == {"in_review": True}

    assert provider.asked == [KEY]


def test_a_review_starts_when_the_provider_has_answered(
    calls: Calls, provider: Provider, later: Callable[..., None]
) -> None:
    calls.before("VerifyKyc")
    provider.answer, provider.meanwhile = IN_REVIEW, lambda: later(seconds=7)

    calls("VerifyKyc")

    assert calls.row()["deadline_at"] == REVIEW_ENDS.replace("00.123", "07.123")


def test_a_verdict_bears_the_time_at_which_the_provider_has_answered(
    calls: Calls, provider: Provider, later: Callable[..., None]
) -> None:
    calls.before("VerifyKyc")
    provider.meanwhile = lambda: later(seconds=7)

    assert calls("VerifyKyc") == VERDICT

    assert calls.entry("verify") == EVIDENCE | {"posted_at": LATER_AT}


@pytest.mark.parametrize("other", OTHER_CONTENT)
@pytest.mark.parametrize("prepare", [Calls.before, Calls.after])
def test_other_content_is_refused(
    calls: Calls, provider: Provider, prepare: Callable[[Calls, str], Any], other: dict[str, str]
) -> None:
    prepare(calls, "VerifyKyc")
    provider.asked.clear()

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls("VerifyKyc", other)

    assert provider.asked == []


def test_other_content_is_refused_in_review(calls: Calls, provider: Provider) -> None:
    calls.before("VerifyKyc")
    provider.answer = IN_REVIEW
    calls("VerifyKyc")

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls("VerifyKyc", WIRE | {"amount": "48.21"})


@pytest.mark.parametrize("state", ["ClaimKey", "HoldFunds"])
def test_the_provider_is_not_asked_before_the_hold(calls: Calls, provider: Provider, state: str) -> None:
    calls.before(state)

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls("VerifyKyc")

    assert provider.asked == []


@pytest.mark.parametrize("review", [{}, {"review": "ver_1"}])
@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PROCESSING])
def test_the_provider_is_not_asked_past_processing(
    calls: Calls, provider: Provider, status: Status, review: dict[str, str]
) -> None:
    calls.before("VerifyKyc")
    calls.alter(status=status, **review)

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls("VerifyKyc")

    assert provider.asked == []


@pytest.mark.parametrize("review", [{}, {"review": "ver_1"}])
def test_the_provider_is_not_asked_from_the_deadline_on(
    calls: Calls, provider: Provider, later: Callable[..., None], review: dict[str, str]
) -> None:
    calls.before("VerifyKyc")
    calls.alter(**review)
    later(minutes=15)

    with calls.writes_nothing(), pytest.raises(DeadlineExceeded):
        calls("VerifyKyc")

    assert provider.asked == []


def test_the_provider_is_asked_up_to_the_deadline(
    calls: Calls, provider: Provider, later: Callable[..., None]
) -> None:
    calls.before("VerifyKyc")
    later(minutes=14, seconds=59, milliseconds=999)

    assert calls("VerifyKyc") == VERDICT

    assert (provider.asked, calls.row()["verdict"]) == ([KEY], "APPROVED")


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("settlement", "message"), MALFORMED_SETTLEMENTS)
def test_a_malformed_settlement_is_refused(
    calls: Calls, provider: Provider, settlement: Any, message: str
) -> None:
    calls.before("VerifyKyc")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls("VerifyKyc", settlement)

    assert provider.asked == []
