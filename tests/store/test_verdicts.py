"""Our own request's verdict: an approval commits the step, a rejection only goes on record."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from settlement.model.errors import KycUnavailable, StepFenced
from settlement.model.status import REVERSIBLE, Step
from settlement.model.verdict import Verdict
from tests.conftest import NOW
from tests.store.saga import LATER, Saga
from tests.store.verdicts import (
    HELD,
    begin_review,
    concluded,
    entries,
    entry_of,
    held,
    in_review,
    own,
    webhook,
)
from tests.support.kyc import APPROVED, REJECTED

VERDICTS = pytest.mark.parametrize("verdict", [APPROVED, REJECTED], ids=lambda each: each.decision)
POSTED_AT = "2026-11-20T12:00:07.123Z"


@VERDICTS
def test_a_verdict_is_one_entry_and_only_an_approval_commits_the_step(saga: Saga, verdict: Verdict) -> None:
    held(saga)

    entry = own(saga, verdict)

    assert entry == entry_of(verdict, POSTED_AT)
    assert entries(saga) == [entry]
    assert saga.row() == concluded(HELD, verdict)
    assert saga.row()["steps"] == ({"hold", "verify"} if verdict is APPROVED else {"hold"})


@VERDICTS
def test_a_verdict_of_our_own_does_not_end_a_review_that_another_call_has_left_the_payment_to(
    saga: Saga, verdict: Verdict
) -> None:
    in_review(saga)

    with saga.writes_nothing(), pytest.raises(KycUnavailable, match=r"^kyc: .* in review$"):
        own(saga, verdict)

    assert webhook(saga, verdict) is None
    assert saga.row()["verdict"] == verdict.decision


@VERDICTS
@pytest.mark.parametrize("later", [APPROVED, REJECTED], ids=lambda each: f"then {each.decision}")
def test_the_first_verdict_is_replayed_whatever_the_provider_says_later(
    saga: Saga, verdict: Verdict, later: Verdict
) -> None:
    held(saga)
    first = own(saga, verdict)

    with saga.writes_nothing():
        assert own(saga, replace(later, reference="ver_2"), NOW + timedelta(days=300)) == first


def reject_ourselves(saga: Saga) -> None:
    own(saga, REJECTED)


def reject_in_review(saga: Saga) -> None:
    begin_review(saga)
    webhook(saga, REJECTED)


def reject_before_our_answer(saga: Saga) -> None:
    webhook(saga, REJECTED, now=LATER)


@pytest.mark.parametrize("reject", [reject_ourselves, reject_in_review, reject_before_our_answer])
def test_a_rejection_never_lets_the_release_nor_the_fee_commit(
    saga: Saga, reject: Callable[[Saga], None]
) -> None:
    held(saga)
    reject(saga)

    with saga.writes_nothing():
        own(saga, APPROVED)
        for step in (Step.RELEASE, Step.FEE):
            with pytest.raises(StepFenced, match=rf"^{step}: .* PROCESSING with steps \[hold\] committed$"):
                saga.commit(step, LATER)


def test_but_for_the_rejection_the_release_would_have_committed(saga: Saga) -> None:
    held(saga)
    own(saga, APPROVED)

    assert saga.commit(Step.RELEASE, LATER)["amount"] == 4772


@pytest.mark.parametrize("reject", [reject_ourselves, reject_in_review])
def test_a_rejected_payment_is_refunded_to_the_payer(saga: Saga, reject: Callable[[Saga], None]) -> None:
    held(saga)
    reject(saga)
    saga.begin()

    for step in REVERSIBLE:
        saga.reverse(step)

    alice, bob, *_ = saga.books()
    assert (alice["available"], bob["available"]) == (10_000, 500)
    assert (saga.row()["status"], saga.row()["verdict"]) == ("COMPENSATED", "REJECTED")
    assert "verify" not in saga.row()["steps"]
