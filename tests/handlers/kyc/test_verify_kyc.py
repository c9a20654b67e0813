import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from handlers.kyc import _provider as _kyc
from settlement.core import telemetry
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import (
    DeadlineExceeded,
    IdempotencyConflict,
    InReview,
    KycCircuitOpen,
    KycRejected,
    KycRequestRefused,
    KycUnavailable,
    SettlementError,
    StepFenced,
)
from settlement.core.model.timestamps import timestamp
from settlement.core.model.verdict import Verdict
from tests.handlers.conftest import Calls
from tests.world.constants import CLAIMED_AT, KEY, LATER_AT, REJECTED_BY_KYC, WIRE
from tests.world.environment import NOW
from tests.world.provider import APPROVED, IN_REVIEW, REJECTED, Provider
from tests.world.services import OWNER, Died, signed

EVIDENCE = {
    "posted_at": CLAIMED_AT,
    "decision": "APPROVED",
    "reference": "ver_1",
    "reason": "nothing is known",
    "provider": "verifications",
}
DEAD = KycUnavailable("kyc: ConnectTimeoutError")
ANSWERS = [APPROVED, REJECTED, IN_REVIEW]
UNTIL = ("deadline_at", "in_flight_since", "gsi1sk")
"""Attributes that a review sets to its end time."""


def during(provider: Provider, answer: Verdict, meanwhile: Callable[[], object]) -> None:
    def once() -> None:
        provider.meanwhile = lambda: None
        meanwhile()
        telemetry.count("StepCalled")  # the call in between has published the metrics of this one
        provider.answer = answer

    provider.meanwhile = once


def outcome(calls: Calls) -> str:
    try:
        assert calls("VerifyKyc") is None, "the verdict stays in the evidence"
    except (KycRejected, InReview) as error:
        return type(error).__name__
    return "approved"


def die_between(calls: Calls) -> None:
    """Make VerifyKyc die after the evidence and before the row's verdict."""
    with calls.fails("update", Died()), pytest.raises(Died):
        calls("VerifyKyc")
    assert "verify" in calls.entries()
    assert not calls.row().keys() & {"verdict", "verify_at", "review"}


# The question


def test_the_verdict_is_recorded_with_the_answers_time(calls: Calls) -> None:
    calls.before("VerifyKyc")
    before = calls.row()
    calls.provider.meanwhile = calls.later

    assert outcome(calls) == "approved"

    assert calls.ledger.row({"pk": f"EVIDENCE#{KEY}", "sk": f"{KEY}:verify"})
    assert calls.entry("verify") == EVIDENCE | {"posted_at": LATER_AT}
    assert calls.row() == before | {"verify_at": LATER_AT, "verdict": "APPROVED", "sequence": 2}
    assert calls.provider.asked == [KEY]


def test_a_rejection_is_recorded_and_does_not_commit_the_step(calls: Calls) -> None:
    calls.before("VerifyKyc")
    calls.provider.answer = REJECTED

    with pytest.raises(KycRejected, match=r"^kyc: rejected by the provider; its reference is ver_1$"):
        calls("VerifyKyc")

    row = calls.row()
    assert (row["status"], row["verdict"], "verify_at" in row) == ("PROCESSING", "REJECTED", False)
    assert calls.entry("verify")["decision"] == "REJECTED"


def test_a_review_is_requested_once_and_extends_the_deadline(calls: Calls) -> None:
    calls.before("VerifyKyc")
    before = calls.row()
    calls.provider.answer, calls.provider.meanwhile = IN_REVIEW, calls.later
    calls.counted()

    with pytest.raises(InReview, match=f"^kyc: {KEY} waits for a reviewer's decision$"):
        calls("VerifyKyc")

    ends = "2026-11-21T12:00:07.123Z"  # a day after the answer
    assert calls.row() == before | {"review": "ver_1", "sequence": 2} | dict.fromkeys(UNTIL, ends)
    assert calls.entries() == {"hold"}
    assert calls.counted() == {"StepCalled": 1, "KycReview": 1, "InReview": 1}
    calls.provider.answer = APPROVED
    calls.later(hours=23)
    with calls.writes_nothing():
        assert outcome(calls) == "InReview"
    assert (calls.provider.asked, calls.counted()) == (
        [KEY],
        {"StepCalled": 1, "KycReview": 1, "InReview": 1},
    )


@pytest.mark.parametrize(
    "error", [DEAD, KycCircuitOpen("kyc: not asked"), KycRequestRefused("kyc: refused with status 422")]
)
def test_without_an_answer_nothing_is_written_and_kyc_asked_again(
    calls: Calls, error: SettlementError
) -> None:
    calls.before("VerifyKyc")
    calls.provider.answer = error
    with calls.writes_nothing(), pytest.raises(type(error)):
        calls("VerifyKyc")
    calls.provider.answer = APPROVED

    assert outcome(calls) == "approved"

    assert calls.provider.asked == [KEY, KEY]


@pytest.mark.parametrize("verdict", [APPROVED, REJECTED])
@pytest.mark.parametrize("answer", [DEAD, *ANSWERS])
def test_a_recorded_verdict_is_replayed_without_asking_the_provider(
    calls: Calls, verdict: Verdict, answer: Verdict | Exception
) -> None:
    calls.before("VerifyKyc")
    calls.provider.answer = verdict
    first = outcome(calls)
    calls.provider.answer = answer
    calls.later(days=400)
    calls.counted()

    with calls.writes_nothing():
        assert outcome(calls) == first

    assert calls.provider.asked == [KEY]
    rejected = {} if verdict is APPROVED else {"KycRejected": 1}
    assert calls.counted() == {"StepCalled": 1, "StepReplayed": 1, **rejected}


@pytest.mark.parametrize("review", [{}, {"review": "ver_1"}])
def test_the_provider_is_asked_only_between_hold_and_deadline(calls: Calls, review: dict[str, str]) -> None:
    owner = calls.claimed()
    calls.alter(**review)
    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls("VerifyKyc")
    calls("HoldFunds", execution=owner)
    calls.later(minutes=15)

    with calls.writes_nothing(), pytest.raises(DeadlineExceeded):
        calls("VerifyKyc")

    assert calls.provider.asked == []


@pytest.mark.parametrize("review_seconds", [3_600, 14_400])
def test_a_review_or_webhook_does_not_change_the_requests_deadline(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, review_seconds: int
) -> None:
    named = WIRE | {"deadline_seconds": 7_200}
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("bob", 500)
    calls("HoldFunds", named)
    monkeypatch.setattr(_kyc, "review_seconds", review_seconds)
    calls.provider.answer = IN_REVIEW

    with pytest.raises(InReview):
        calls("VerifyKyc", named)

    deadline = timestamp(NOW + timedelta(seconds=7_200))
    assert {calls.row()[name] for name in UNTIL} == {deadline}
    assert calls.decided(signed())[0] == 200
    assert calls.row()["deadline_at"] == deadline


# Changes of the settlement while the provider is asked


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("ended", [False, True])
def test_an_answer_during_or_after_a_compensation_is_only_evidence(
    calls: Calls, answer: Verdict, ended: bool
) -> None:
    calls.before("VerifyKyc")

    def reverse() -> None:
        found = calls.begin(error=REJECTED_BY_KYC)
        if ended:
            calls.unwind(found)

    during(calls.provider, answer, reverse)

    with pytest.raises(StepFenced, match="COMPENSATED" if ended else "COMPENSATING"):
        calls("VerifyKyc")

    assert ("verify" in calls.entries()) == (answer is not IN_REVIEW)
    assert not calls.row().keys() & {"verdict", "verify_at", "review"}


@pytest.mark.parametrize("first", [APPROVED, REJECTED])
@pytest.mark.parametrize("second", ANSWERS)
@pytest.mark.parametrize("by_webhook", [True, False])
def test_the_first_of_two_answers_stays_and_contradictions_are_reported(
    calls: Calls, log: io.StringIO, first: Verdict, second: Verdict, by_webhook: bool
) -> None:
    """Our answer is kept beside the webhook's. A late "in review" contradicts only an answer of ours."""
    calls.before("VerifyKyc")
    calls.provider.answer = replace(first, reference="ver_2", reason="canary-first")

    def decided() -> None:
        if by_webhook:
            assert calls.decided(signed(decision=first.decision, reference="ver_2"))[0] == 200
        else:
            outcome(calls)
        calls.counted()

    during(calls.provider, replace(second, reason="canary-second"), decided)

    if first is APPROVED:
        assert outcome(calls) == "approved"
    else:
        with pytest.raises(KycRejected, match=r"its reference is ver_2$"):
            calls("VerifyKyc")

    reviews_too_late = second is IN_REVIEW and not by_webhook
    contradicts = {first, second} == {APPROVED, REJECTED} or reviews_too_late
    conflict = {"KycVerdictConflict": 1} if contradicts else {}
    rejected = {"KycRejected": 1} if first is REJECTED else {}
    own = by_webhook and second is not IN_REVIEW  # this answer is the first of its kind
    replayed = {} if own else {"StepReplayed": 1}
    assert calls.counted() == {"StepCalled": 1, **replayed, **conflict, **rejected}
    counting = calls.entry("review" if by_webhook else "verify")
    assert calls.row()["verdict"] == counting["decision"] == first.decision
    assert counting["reference"] == "ver_2"
    if own:
        assert calls.entry("verify")["decision"] == second.decision
    assert ("review" in calls.row(), calls.row()["owner"] == OWNER) == (False, by_webhook)
    lines = [line for line in map(json.loads, log.getvalue().splitlines()) if line["message"] == "conflict"]
    logged = [(line["level"], line["reference"], line["on_record"]) for line in lines]
    assert logged == ([("WARNING", "ver_1", "review" if by_webhook else "ver_2")] if contradicts else [])
    assert "canary" not in log.getvalue()


@pytest.mark.parametrize("answer", [APPROVED, REJECTED])
@pytest.mark.parametrize("compensated", [False, True])
def test_a_concurrent_calls_review_outweighs_this_calls_answer(
    calls: Calls, answer: Verdict, compensated: bool
) -> None:
    calls.before("VerifyKyc")
    calls.provider.answer = IN_REVIEW

    def twin() -> None:
        assert outcome(calls) == "InReview"
        if compensated:
            calls.begin(error=REJECTED_BY_KYC)

    during(calls.provider, answer, twin)

    error, message = (StepFenced, "COMPENSATING") if compensated else (KycUnavailable, "in review")
    with pytest.raises(error, match=message):
        calls("VerifyKyc")

    assert (calls.row()["review"], "verdict" in calls.row()) == ("ver_1", False)
    assert calls.entry("verify")["decision"] == answer.decision


# A call that died between the evidence and the row


@pytest.mark.parametrize("first", [APPROVED, REJECTED])
@pytest.mark.parametrize(
    "answer",
    [
        DEAD,
        KycCircuitOpen("kyc: not asked"),
        KycRequestRefused("kyc: refused with status 422"),
        *(replace(answer, reference="ver_2", reason="canary-second") for answer in ANSWERS),
    ],
    ids=["down", "circuit open", "refused", "approved", "rejected", "review"],
)
def test_a_dead_calls_recorded_verdict_outweighs_the_next_answer(
    calls: Calls, log: io.StringIO, first: Verdict, answer: Verdict | Exception
) -> None:
    """The provider is asked again, because evidence alone commits no step."""
    calls.before("VerifyKyc")
    calls.provider.answer = first
    die_between(calls)
    evidence = calls.entry("verify")
    calls.provider.answer = answer
    calls.later()
    calls.counted()

    if first is APPROVED:
        assert outcome(calls) == "approved"
    else:
        with pytest.raises(KycRejected, match=r"its reference is ver_1$"):
            calls("VerifyKyc")

    row = calls.row()
    assert (row["verdict"], row.get("verify_at")) == (first.decision, LATER_AT if first is APPROVED else None)
    assert "review" not in row
    assert (calls.entry("verify"), calls.provider.asked) == (evidence, [KEY, KEY])
    contradicts = isinstance(answer, Verdict) and answer.decision != first.decision
    conflict = {"KycVerdictConflict": 1} if contradicts else {}
    rejected = {"KycRejected": 1} if first is REJECTED else {}
    assert calls.counted() == {"StepCalled": 1, "StepReplayed": 1, **conflict, **rejected}
    lines = [line for line in map(json.loads, log.getvalue().splitlines()) if line["message"] == "conflict"]
    logged = [(line["reference"], line["on_record"]) for line in lines]
    assert logged == ([("ver_2", "ver_1")] if conflict else [])
    assert "canary" not in log.getvalue()
    with calls.writes_nothing():
        outcome(calls)


@pytest.mark.parametrize("answer", [APPROVED, DEAD, IN_REVIEW], ids=["approved", "down", "review"])
def test_evidence_about_another_request_is_a_conflict(calls: Calls, answer: Verdict | Exception) -> None:
    calls.before("VerifyKyc")
    die_between(calls)
    calls.ledger.put(_evidence(calls) | {"request_hash": "another"})
    calls.provider.answer = answer

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls("VerifyKyc")


def _evidence(calls: Calls) -> Row:
    found = calls.ledger.row(keys.evidence(KEY, "verify"))
    assert found is not None
    return found
