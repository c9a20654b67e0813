"""VerifyKyc: changes of a settlement while the provider is asked."""

import io
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from settlement.adapters import telemetry
from settlement.model.errors import DeadlineExceeded, KycRejected, KycUnavailable, StepFenced
from settlement.model.verdict import Verdict
from tests.handlers.calls import KEY, REJECTED_BY_KYC, Calls
from tests.handlers.conftest import Counted
from tests.handlers.stand_ins import OWNER, Secrets, Starts, signed
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED, Provider

ANSWERS = [APPROVED, REJECTED, IN_REVIEW]


def during(provider: Provider, answer: Verdict, meanwhile: Callable[[], object]) -> None:
    """Call `meanwhile` once while the provider is asked, before it answers."""

    def once() -> None:
        provider.meanwhile = lambda: None
        meanwhile()
        telemetry.count("StepCalled")  # the call in between has published the metrics of this one
        provider.answer = answer

    provider.meanwhile = once


def unhurt(calls: Calls) -> None:
    """Check that every balance is as before the settlement."""
    assert (calls.row()["status"], calls.row()["escrow"]) == ("COMPENSATED", 0)
    assert calls.account("alice")["available"] == 10_000
    assert calls.account("bob")["available"] == 500


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_comes_after_compensation_began_changes_nothing(
    calls: Calls, provider: Provider, answer: Verdict
) -> None:
    calls.before("VerifyKyc")
    found = []
    during(provider, answer, lambda: found.append(calls.begin(error=REJECTED_BY_KYC)))

    with pytest.raises(StepFenced, match="COMPENSATING"):
        calls("VerifyKyc")

    assert calls.entries() == {"hold"}
    assert not calls.row().keys() & {"verdict", "review"}
    calls.unwind(found[0])
    unhurt(calls)


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_comes_after_compensation_ended_changes_nothing(
    calls: Calls, provider: Provider, answer: Verdict
) -> None:
    calls.before("VerifyKyc")
    during(provider, answer, lambda: calls.unwind(calls.begin(error=REJECTED_BY_KYC)))

    with pytest.raises(StepFenced, match="COMPENSATED"):
        calls("VerifyKyc")

    assert "verify" not in calls.entries()
    unhurt(calls)


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_comes_at_the_deadline_changes_nothing(
    calls: Calls, provider: Provider, later: Callable[..., None], answer: Verdict
) -> None:
    calls.before("VerifyKyc")
    during(provider, answer, lambda: later(minutes=15))

    with calls.writes_nothing(), pytest.raises(DeadlineExceeded):
        calls("VerifyKyc")


@pytest.mark.parametrize("slow", ANSWERS)
def test_of_twins_with_different_answers_the_first_verdict_stays(
    calls: Calls, provider: Provider, slow: Verdict
) -> None:
    calls.before("VerifyKyc")
    provider.answer = replace(APPROVED, reference="ver_2")
    during(provider, slow, lambda: calls("VerifyKyc"))

    assert calls("VerifyKyc") == {"in_review": False}

    assert calls.entry("verify")["reference"] == "ver_2"
    assert (calls.row()["verdict"], calls.row()["steps"]) == ("APPROVED", {"hold", "verify"})
    assert "review" not in calls.row()
    assert provider.asked == [KEY, KEY]


@pytest.mark.parametrize("slow", ANSWERS)
def test_a_rejection_that_came_first_stays(calls: Calls, provider: Provider, slow: Verdict) -> None:
    calls.before("VerifyKyc")
    provider.answer = replace(REJECTED, reference="ver_2")

    def twin() -> None:
        with pytest.raises(KycRejected):
            calls("VerifyKyc")

    during(provider, slow, twin)

    with pytest.raises(KycRejected, match="ver_2"):
        calls("VerifyKyc")

    assert (calls.row()["verdict"], calls.row()["steps"]) == ("REJECTED", {"hold"})


def test_of_twins_that_are_both_to_be_reviewed_the_first_review_stays(
    calls: Calls, provider: Provider, later: Callable[..., None]
) -> None:
    calls.before("VerifyKyc")
    provider.answer = replace(IN_REVIEW, reference="ver_2")

    def twin() -> None:
        calls("VerifyKyc")
        later(seconds=7)

    during(provider, IN_REVIEW, twin)

    assert calls("VerifyKyc") == {"in_review": True}

    assert (calls.row()["review"], calls.row()["deadline_at"]) == ("ver_2", "2026-11-21T12:00:00.123Z")


@pytest.mark.parametrize("answer", [APPROVED, REJECTED])
def test_after_the_review_of_a_twin_only_the_review_decides(
    calls: Calls, provider: Provider, answer: Verdict
) -> None:
    calls.before("VerifyKyc")
    provider.answer = IN_REVIEW
    during(provider, answer, lambda: calls("VerifyKyc"))

    with pytest.raises(KycUnavailable, match="in review"):
        calls("VerifyKyc")

    assert (calls.row()["review"], calls.entries()) == ("ver_1", {"hold"})
    assert calls("VerifyKyc") == {"in_review": True}


@pytest.mark.parametrize("answer", [APPROVED, REJECTED])
def test_the_review_of_a_twin_that_was_compensated_is_no_reason_to_ask_again(
    calls: Calls, provider: Provider, answer: Verdict
) -> None:
    calls.before("VerifyKyc")
    provider.answer = IN_REVIEW

    def twin() -> None:
        calls("VerifyKyc")
        calls.begin(error=REJECTED_BY_KYC)

    during(provider, answer, twin)

    with pytest.raises(StepFenced, match="COMPENSATING"):
        calls("VerifyKyc")


@pytest.mark.parametrize(("first", "second"), [(APPROVED, REJECTED), (REJECTED, APPROVED)])
@pytest.mark.parametrize("by_webhook", [True, False])
@pytest.mark.usefixtures("secrets", "starts")
def test_a_second_answer_that_contradicts_the_verdict_is_counted(
    calls: Calls, provider: Provider, counted: Counted, first: Verdict, second: Verdict, *, by_webhook: bool
) -> None:
    calls.before("VerifyKyc")
    provider.answer = replace(first, reference="ver_2")

    def decided() -> None:
        if by_webhook:
            assert calls.decided(signed(decision=first.decision, reference="ver_2"))[0] == 200
        else:
            outcome(calls)
        counted()

    during(provider, second, decided)

    assert outcome(calls) == ("in_review: False" if first is APPROVED else "KycRejected")

    rejected = {"KycRejected": 1} if first is REJECTED else {}
    assert counted() == {"StepCalled": 1, "StepReplayed": 1, "KycVerdictConflict": 1, **rejected}
    assert (calls.row()["verdict"], calls.entry("verify")["reference"]) == (first.decision, "ver_2")


def outcome(calls: Calls) -> str:
    """Return the answer or the error of VerifyKyc as text."""
    try:
        return f"in_review: {calls('VerifyKyc')['in_review']}"
    except KycRejected as rejected:
        return type(rejected).__name__


def test_a_contradiction_is_logged_with_both_references_and_no_reason(
    calls: Calls, provider: Provider, log: io.StringIO
) -> None:
    calls.before("VerifyKyc")
    provider.answer = replace(APPROVED, reference="ver_2", reason="canary-first")
    during(provider, replace(REJECTED, reason="canary-second"), lambda: calls("VerifyKyc"))

    calls("VerifyKyc")

    (told,) = [line for line in map(json.loads, log.getvalue().splitlines()) if line["message"] == "conflict"]
    assert (told["level"], told["reference"], told["on_record"]) == ("WARNING", "ver_1", "ver_2")
    assert "canary" not in log.getvalue()


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_verdict_that_is_replayed_contradicts_nothing(
    calls: Calls, provider: Provider, counted: Counted, answer: Verdict
) -> None:
    calls.after("VerifyKyc")
    provider.answer = answer
    counted()

    calls("VerifyKyc")

    assert counted() == {"StepCalled": 1, "StepReplayed": 1}


@pytest.mark.parametrize("slow", [APPROVED, IN_REVIEW])
def test_a_second_answer_that_agrees_with_the_verdict_is_not_counted(
    calls: Calls, provider: Provider, counted: Counted, slow: Verdict
) -> None:
    calls.before("VerifyKyc")

    def twin() -> None:
        calls("VerifyKyc")
        counted()

    during(provider, slow, twin)

    assert calls("VerifyKyc") == {"in_review": False}

    assert counted() == {"StepCalled": 1, "StepReplayed": 1}


@pytest.mark.parametrize("answer", [APPROVED, IN_REVIEW])
def test_a_webhook_that_approves_before_the_request_returns_is_the_verdict(
    calls: Calls, provider: Provider, secrets: Secrets, starts: Starts, answer: Verdict
) -> None:
    calls.before("VerifyKyc")
    during(provider, answer, lambda: calls.decided(signed()))

    assert calls("VerifyKyc") == {"in_review": False}

    assert calls.entry("verify")["provider"] == "webhook"
    assert (calls.row()["owner"], calls.row()["steps"]) == (OWNER, {"hold", "verify"})
    assert "review" not in calls.row()
    assert starts.names == [OWNER]


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_webhook_that_rejects_before_the_request_returns_is_the_verdict(
    calls: Calls, provider: Provider, secrets: Secrets, starts: Starts, answer: Verdict
) -> None:
    calls.before("VerifyKyc")
    during(provider, answer, lambda: calls.decided(signed(decision="REJECTED")))

    with pytest.raises(KycRejected):
        calls("VerifyKyc")

    assert (calls.row()["verdict"], calls.row()["steps"]) == ("REJECTED", {"hold"})
