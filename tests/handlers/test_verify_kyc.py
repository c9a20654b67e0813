"""VerifyKyc: the provider is asked once, and its verdict is on record for ever."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from handlers import _kyc
from settlement.adapters import telemetry
from settlement.model.errors import (
    DeadlineExceeded,
    KycCircuitOpen,
    KycRejected,
    KycRequestRefused,
    KycUnavailable,
    SettlementError,
    StepFenced,
)
from settlement.model.timestamps import timestamp
from settlement.model.verdict import Verdict
from tests.handlers.conftest import Counted, Later
from tests.world.constants import CLAIMED_AT, KEY, LATER_AT, REJECTED_BY_KYC, WIRE
from tests.world.environment import NOW
from tests.world.functions import Calls
from tests.world.provider import APPROVED, IN_REVIEW, REJECTED, Provider
from tests.world.services import OWNER, signed

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
ANSWERS = [APPROVED, REJECTED, IN_REVIEW]
UNTIL = ("deadline_at", "in_flight_since", "gsi1sk")
"""The attributes that a review moves to its end."""


def during(provider: Provider, answer: Verdict, meanwhile: Callable[[], object]) -> None:
    """Call `meanwhile` once while the provider is asked, before it answers."""

    def once() -> None:
        provider.meanwhile = lambda: None
        meanwhile()
        telemetry.count("StepCalled")  # the call in between has published the metrics of this one
        provider.answer = answer

    provider.meanwhile = once


def outcome(calls: Calls) -> str:
    """Return the answer or the error of VerifyKyc as text."""
    try:
        return f"in_review: {calls('VerifyKyc')['in_review']}"
    except KycRejected as rejected:
        return type(rejected).__name__


# The question


def test_the_first_call_records_the_verdict_at_the_time_of_the_answer(
    calls: Calls, provider: Provider, later: Later
) -> None:
    calls.before("VerifyKyc")
    provider.meanwhile = later

    assert calls("VerifyKyc") == VERDICT

    row = calls.row()
    assert calls.entry("verify") == EVIDENCE | {"posted_at": LATER_AT}
    assert (row["steps"], row["verdict"], "review" in row) == ({"hold", "verify"}, "APPROVED", False)
    assert provider.asked == [KEY]


def test_a_rejection_is_on_record_and_does_not_commit_the_step(calls: Calls, provider: Provider) -> None:
    calls.before("VerifyKyc")
    provider.answer = REJECTED

    with pytest.raises(KycRejected, match=r"^kyc: rejected by the provider; its reference is ver_1$"):
        calls("VerifyKyc")

    row = calls.row()
    assert (row["status"], row["steps"], row["verdict"]) == ("PROCESSING", {"hold"}, "REJECTED")
    assert calls.entry("verify")["decision"] == "REJECTED"


def test_a_review_keeps_the_settlement_until_its_end_and_is_not_asked_for_again(
    calls: Calls, provider: Provider, counted: Counted, later: Later
) -> None:
    calls.before("VerifyKyc")
    before = calls.row()
    provider.answer, provider.meanwhile = IN_REVIEW, later
    counted()

    assert calls("VerifyKyc") == {"in_review": True}

    ends = "2026-11-21T12:00:07.123Z"  # a day after the answer
    assert calls.row() == before | {"review": "ver_1"} | dict.fromkeys(UNTIL, ends)
    assert calls.entries() == {"hold"}
    assert counted() == {"StepCalled": 1, "KycReview": 1}
    provider.answer = APPROVED
    later(hours=23)
    with calls.writes_nothing():
        assert calls("VerifyKyc") == {"in_review": True}
    assert (provider.asked, counted()) == ([KEY], {"StepCalled": 1, "KycReview": 1})


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


@pytest.mark.parametrize("verdict", [APPROVED, REJECTED])
@pytest.mark.parametrize("answer", [DEAD, *ANSWERS])
def test_a_verdict_is_replayed_for_ever_without_a_question(
    calls: Calls,
    *,
    provider: Provider,
    later: Later,
    counted: Counted,
    verdict: Verdict,
    answer: Verdict | Exception,
) -> None:
    calls.before("VerifyKyc")
    provider.answer = verdict
    first = outcome(calls)
    provider.answer = answer
    later(days=400)
    counted()

    with calls.writes_nothing():
        assert outcome(calls) == first

    assert provider.asked == [KEY]
    rejected = {} if verdict is APPROVED else {"KycRejected": 1}
    assert counted() == {"StepCalled": 1, "StepReplayed": 1, **rejected}


@pytest.mark.parametrize("review", [{}, {"review": "ver_1"}])
def test_the_provider_is_not_asked_before_the_hold_or_from_the_deadline_on(
    calls: Calls, provider: Provider, later: Later, review: dict[str, str]
) -> None:
    calls.before("HoldFunds")
    calls.alter(**review)
    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls("VerifyKyc")
    calls("HoldFunds")
    later(minutes=15)

    with calls.writes_nothing(), pytest.raises(DeadlineExceeded):
        calls("VerifyKyc")

    assert provider.asked == []


@pytest.mark.parametrize("review_seconds", [3_600, 14_400])
def test_a_deadline_that_the_request_names_is_moved_neither_by_a_review_nor_by_a_verdict(
    calls: Calls, provider: Provider, monkeypatch: pytest.MonkeyPatch, review_seconds: int
) -> None:
    named = WIRE | {"deadline_seconds": 7_200}
    calls.ledger.open("alice", 10_000)
    for state in ("ClaimKey", "HoldFunds"):
        calls(state, named)
    monkeypatch.setattr(_kyc, "review_seconds", review_seconds)
    provider.answer = IN_REVIEW

    assert calls("VerifyKyc", named) == {"in_review": True}

    deadline = timestamp(NOW + timedelta(seconds=7_200))
    assert {calls.row()[name] for name in UNTIL} == {deadline}


@pytest.mark.usefixtures("secrets", "step_functions")
def test_a_verdict_of_the_webhook_leaves_the_deadline_that_the_request_named(
    calls: Calls, provider: Provider
) -> None:
    named = WIRE | {"deadline_seconds": 7_200}
    calls.ledger.open("alice", 10_000)
    for state in ("ClaimKey", "HoldFunds"):
        calls(state, named)
    provider.answer = IN_REVIEW
    calls("VerifyKyc", named)

    assert calls.decided(signed())[0] == 200

    assert calls.row()["deadline_at"] == timestamp(NOW + timedelta(seconds=7_200))


# Changes of the settlement while the provider is asked


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("ended", [False, True])
def test_an_answer_that_comes_after_a_compensation_began_or_ended_changes_nothing(
    calls: Calls, provider: Provider, answer: Verdict, ended: bool
) -> None:
    calls.before("VerifyKyc")

    def reverse() -> None:
        found = calls.begin(error=REJECTED_BY_KYC)
        if ended:
            calls.unwind(found)

    during(provider, answer, reverse)

    with pytest.raises(StepFenced, match="COMPENSATED" if ended else "COMPENSATING"):
        calls("VerifyKyc")

    assert "verify" not in calls.entries()
    assert not calls.row().keys() & {"verdict", "review"}


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_comes_at_the_deadline_changes_nothing(
    calls: Calls, provider: Provider, later: Later, answer: Verdict
) -> None:
    calls.before("VerifyKyc")
    during(provider, answer, lambda: later(minutes=15))

    with calls.writes_nothing(), pytest.raises(DeadlineExceeded):
        calls("VerifyKyc")


@pytest.mark.parametrize("first", [APPROVED, REJECTED])
@pytest.mark.parametrize("second", ANSWERS)
@pytest.mark.parametrize("by_webhook", [True, False])
@pytest.mark.usefixtures("secrets", "step_functions")
def test_of_two_answers_the_first_verdict_stays_and_a_contradiction_is_counted_and_logged(
    calls: Calls,
    *,
    provider: Provider,
    counted: Counted,
    log: io.StringIO,
    first: Verdict,
    second: Verdict,
    by_webhook: bool,
) -> None:
    calls.before("VerifyKyc")
    provider.answer = replace(first, reference="ver_2", reason="canary-first")

    def decided() -> None:
        if by_webhook:
            assert calls.decided(signed(decision=first.decision, reference="ver_2"))[0] == 200
        else:
            outcome(calls)
        counted()

    during(provider, replace(second, reason="canary-second"), decided)

    assert outcome(calls) == ("in_review: False" if first is APPROVED else "KycRejected")

    contradicts = {first, second} == {APPROVED, REJECTED}
    conflict = {"KycVerdictConflict": 1} if contradicts else {}
    rejected = {"KycRejected": 1} if first is REJECTED else {}
    assert counted() == {"StepCalled": 1, "StepReplayed": 1, **conflict, **rejected}
    assert (calls.row()["verdict"], calls.entry("verify")["reference"]) == (first.decision, "ver_2")
    assert ("review" in calls.row(), calls.row()["owner"] == OWNER) == (False, by_webhook)
    lines = [line for line in map(json.loads, log.getvalue().splitlines()) if line["message"] == "conflict"]
    logged = [(line["level"], line["reference"], line["on_record"]) for line in lines]
    assert logged == ([("WARNING", "ver_1", "ver_2")] if contradicts else [])
    assert "canary" not in log.getvalue()


def test_of_two_reviews_the_first_one_stays(calls: Calls, provider: Provider, later: Later) -> None:
    calls.before("VerifyKyc")
    provider.answer = replace(IN_REVIEW, reference="ver_2")

    def twin() -> None:
        calls("VerifyKyc")
        later()

    during(provider, IN_REVIEW, twin)

    assert calls("VerifyKyc") == {"in_review": True}

    assert (calls.row()["review"], calls.row()["deadline_at"]) == ("ver_2", "2026-11-21T12:00:00.123Z")


@pytest.mark.parametrize("answer", [APPROVED, REJECTED])
@pytest.mark.parametrize("compensated", [False, True])
def test_after_the_review_of_a_twin_only_the_review_decides_unless_it_was_compensated(
    calls: Calls, provider: Provider, answer: Verdict, compensated: bool
) -> None:
    calls.before("VerifyKyc")
    provider.answer = IN_REVIEW

    def twin() -> None:
        calls("VerifyKyc")
        if compensated:
            calls.begin(error=REJECTED_BY_KYC)

    during(provider, answer, twin)

    error, message = (StepFenced, "COMPENSATING") if compensated else (KycUnavailable, "in review")
    with pytest.raises(error, match=message):
        calls("VerifyKyc")

    assert (calls.row()["review"], calls.entries()) == ("ver_1", {"hold"})
