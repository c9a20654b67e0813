"""Our own answer, a review and the webhook leave one verdict and one effect."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import permutations
from typing import Any

import pytest

from settlement.core.ledger import entries as ledger_entries
from settlement.core.ledger import kyc_review
from settlement.core.ledger.keys import Row
from settlement.core.ledger.kyc_review import WebhookEvent
from settlement.core.model.errors import IdempotencyConflict, KycUnavailable, StepFenced
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Step
from settlement.core.model.verdict import Verdict
from tests.store.rows import (
    ENDS,
    EVENT,
    OWNER,
    QUEUED,
    TIME,
    UNDER_REVIEW,
    begin_review,
    concluded,
    event,
    evidence_of,
    held,
    in_order,
    in_review,
    marker,
    markers,
    own,
    verdicts,
    webhook,
)
from tests.world.environment import NOW
from tests.world.provider import APPROVED, IN_REVIEW, REJECTED
from tests.world.saga import LATER, POSTED_AT, Saga, outcome_of, state_of

VERDICTS = pytest.mark.parametrize("verdict", [APPROVED, REJECTED], ids=lambda each: each.decision)
LATER_AT, WEBHOOK_AT = "2026-11-20T12:00:07.123Z", "2026-11-20T17:00:00.123Z"
OTHER_KEY = "order-2026-000202"


def other_of(verdict: Verdict) -> Verdict:
    return REJECTED if verdict is APPROVED else APPROVED


def review_of(verdict: Verdict, posted_at: str) -> Row:
    return evidence_of(verdict, posted_at, name=kyc_review.REVIEW)


# Our own answer


@VERDICTS
def test_a_verdict_is_recorded_once_and_only_approval_commits_verify(saga: Saga, verdict: Verdict) -> None:
    held(saga)

    assert own(saga, verdict) == evidence_of(verdict, LATER_AT)

    assert verdicts(saga) == [evidence_of(verdict, LATER_AT)]
    assert saga.row() == concluded(QUEUED, verdict, LATER_AT)
    assert set(saga.state().steps) == ({"hold", "verify"} if verdict is APPROVED else {"hold"})
    with saga.writes_nothing():
        for later in (APPROVED, REJECTED):
            again = own(saga, replace(later, reference="ver_2"), NOW + timedelta(days=300))
            assert again == evidence_of(verdict, LATER_AT)
        assert begin_review(saga, now=LATER) == saga.state()
        assert webhook(saga, verdict, now=LATER) == saga.state()


# A call that dies between the evidence and the row


@VERDICTS
@pytest.mark.parametrize("answer", [APPROVED, REJECTED], ids=lambda each: each.decision)
def test_the_next_call_completes_a_verdict_that_has_only_evidence(
    saga: Saga, verdict: Verdict, answer: Verdict
) -> None:
    held(saga)
    saga.put_evidence(verdict, NOW)

    assert own(saga, replace(answer, reference="ver_2")) == evidence_of(verdict, POSTED_AT)

    assert saga.row() == concluded(QUEUED, verdict, LATER_AT)
    saga.books()


@VERDICTS
@pytest.mark.parametrize("answered", [APPROVED, REJECTED], ids=lambda each: each.decision)
@pytest.mark.parametrize("review", [False, True])
def test_the_webhooks_decision_counts_and_our_own_answer_stays_recorded(
    saga: Saga, answered: Verdict, verdict: Verdict, review: bool
) -> None:
    held(saga)
    saga.put_evidence(answered, NOW)
    if review:
        begin_review(saga)

    assert webhook(saga, verdict, now=LATER) is None

    assert verdicts(saga) == [review_of(verdict, LATER_AT), evidence_of(answered, POSTED_AT)]
    assert (saga.row()["verdict"], saga.row()["owner"]) == (verdict.decision, OWNER)
    assert ("verify_at" in saga.row()) == (verdict is APPROVED)
    assert [row["pk"] for row in markers(saga)] == ["KYC_EVENT#evt_1"]
    with saga.writes_nothing():
        assert saga.put_verdict(answered, LATER) == saga.state()
        with pytest.raises(IdempotencyConflict, match=f"^decision: {verdict.decision} is on record, for"):
            webhook(saga, other_of(verdict), event(2), now=LATER)
    saga.books()


# A review


def test_a_review_keeps_the_hold_and_moves_the_deadline(saga: Saga) -> None:
    held(saga)
    before = saga.ledger.rows()

    assert begin_review(saga) == state_of(UNDER_REVIEW)

    assert saga.ledger.rows() == [UNDER_REVIEW if found == QUEUED else found for found in before]
    assert list(saga.ledger.store.listed("IN_FLIGHT#2", up_to="2026-11-21T12:00:00.122Z", limit=9)) == []
    (listed,) = saga.ledger.store.listed("IN_FLIGHT#2", up_to="2026-11-21T12:00:00.123Z", limit=9)
    assert listed["pk"] == UNDER_REVIEW["pk"]
    with saga.writes_nothing():
        for again in (IN_REVIEW, replace(IN_REVIEW, reference="ver_2")):
            assert begin_review(saga, again, LATER, ENDS + timedelta(hours=1)) == state_of(UNDER_REVIEW)
        with pytest.raises(StepFenced):
            saga.commit(Step.RELEASE, LATER)


@VERDICTS
def test_our_own_answer_does_not_outweigh_another_calls_review(saga: Saga, verdict: Verdict) -> None:
    in_review(saga)

    with saga.writes_only_evidence(), pytest.raises(KycUnavailable, match=r"^kyc: another call was told .*"):
        own(saga, verdict)

    assert webhook(saga, verdict) is None
    assert saga.row()["verdict"] == verdict.decision


# The webhook


@VERDICTS
def test_a_webhooks_verdict_writes_event_and_evidence(saga: Saga, verdict: Verdict) -> None:
    in_review(saga)
    before = saga.ledger.rows()

    assert webhook(saga, verdict) is None

    row = concluded(UNDER_REVIEW, verdict, WEBHOOK_AT, owner=OWNER, owner_epoch=1, **TIME)
    expected = [row if found == UNDER_REVIEW else found for found in before]
    assert saga.ledger.rows() == in_order(*expected, marker(), review_of(verdict, WEBHOOK_AT))
    assert list(saga.ledger.store.listed("IN_FLIGHT#2", up_to="2026-11-20T17:00:00.122Z", limit=9)) == []
    (listed,) = saga.ledger.store.listed("IN_FLIGHT#2", up_to="2026-11-20T17:00:00.123Z", limit=9)
    assert listed["pk"] == UNDER_REVIEW["pk"]


@VERDICTS
def test_a_webhook_that_precedes_the_calls_answer_is_recorded(saga: Saga, verdict: Verdict) -> None:
    held(saga)

    assert webhook(saga, verdict, now=LATER) is None

    time = {"deadline_at": "2026-11-20T12:15:07.123Z", "gsi1sk": "2026-11-20T12:00:07.123Z"}
    row = concluded(QUEUED, verdict, LATER_AT, owner=OWNER, owner_epoch=1, in_flight_since=LATER_AT, **time)
    assert saga.row() == row
    with saga.writes_nothing():
        assert begin_review(saga, now=LATER) == state_of(row)
    with saga.writes_only_evidence():
        assert own(saga, other_of(verdict)) == evidence_of(other_of(verdict), LATER_AT)
        assert saga.put_verdict(other_of(verdict), LATER) == state_of(row)


@VERDICTS
def test_a_decision_is_final_and_replays_in_any_status(saga: Saga, verdict: Verdict) -> None:
    in_review(saga)
    webhook(saga, verdict)

    for begin in (lambda: None, saga.begin):
        begin()
        with saga.writes_nothing():
            assert webhook(saga, verdict) == marker()
            in_other_words = replace(verdict, reason="in other words")
            assert webhook(saga, in_other_words, event(2)) == saga.state()
            with pytest.raises(IdempotencyConflict, match=f"^decision: {verdict.decision} is on record, for"):
                webhook(saga, other_of(verdict), event(2))


def test_an_event_id_cannot_be_reused_for_other_content(saga: Saga) -> None:
    in_review(saga)
    webhook(saga)
    other = saga.asking(key=OTHER_KEY)
    other.claim()
    other.commit(Step.HOLD)

    with saga.writes_nothing():
        for each, digest in ((saga, "d1x"), (saga, ""), (other, "d2")):
            with pytest.raises(IdempotencyConflict, match=r"^webhook-id: was used before by an event with "):
                webhook(each, APPROVED, WebhookEvent(EVENT.id, digest), now=LATER)


def test_a_refused_event_can_be_sent_again(saga: Saga) -> None:
    saga.fund()
    saga.claim()
    with saga.writes_nothing(), pytest.raises(StepFenced):
        webhook(saga, now=LATER)
    saga.commit(Step.HOLD)

    assert webhook(saga, now=LATER) is None

    assert [row["pk"] for row in markers(saga)] == ["KYC_EVENT#evt_1"]


@pytest.mark.parametrize("engine", ["memory"])
def test_evidence_refused_without_an_existing_row_is_a_conflict(saga: Saga) -> None:
    for write in (
        ledger_entries.evidence(saga.settlement, kyc_review.REVIEW, APPROVED.evidence(), NOW),
        kyc_review.event_marker(EVENT, saga.settlement, NOW),
    ):
        assert isinstance(write.on_failure(None), IdempotencyConflict)


# In every order

CALLS: dict[str, Callable[[Saga], Any]] = {
    "own": partial(own, verdict=APPROVED),
    "begin_review": begin_review,
    "approve": partial(webhook, verdict=APPROVED, event=event(1), now=LATER),
    "reject": partial(webhook, verdict=REJECTED, event=event(2), now=LATER),
}


def assert_one_verdict(saga: Saga) -> Row:
    """Check that the row agrees with the evidence that counts; only an approval admits the release."""
    found = verdicts(saga)
    names = [row["step"] for row in found]
    assert names in (["review", "verify"], ["review"], ["verify"])
    evidence, row = found[0], saga.row()
    assert row["verdict"] == evidence["decision"]
    assert "review" not in row
    assert ("verify_at" in row) == (evidence["decision"] == "APPROVED")
    assert evidence["provider"] == "verifications"  # these tests' verdicts are of one provider
    assert len(markers(saga)) == names.count("review")
    release = outcome_of(partial(saga.commit, Step.RELEASE, LATER))
    assert type(release) is (dict if evidence["decision"] == "APPROVED" else StepFenced)
    saga.books()
    return evidence


@pytest.mark.parametrize("order", list(permutations(CALLS)), ids="-".join)
def test_the_first_decision_counts_in_every_order_of_calls(saga: Saga, order: tuple[str, ...]) -> None:
    """Once a review has begun, only the webhook decides: our own answer does not count."""
    held(saga)
    answered = order.index("own") < order.index("begin_review")
    decided = next(name for name in order if name in ("approve", "reject") or (name == "own" and answered))

    for name in order:
        outcome_of(partial(CALLS[name], saga))

    evidence = assert_one_verdict(saga)
    assert evidence["decision"] == ("REJECTED" if decided == "reject" else "APPROVED")
    assert evidence["step"] == ("verify" if decided == "own" else "review")
    assert [row["step"] for row in verdicts(saga)][-1] == "verify"


@pytest.mark.parametrize("position", range(3))
@pytest.mark.parametrize("order", list(permutations(("own", "begin_review", "reject"))), ids="-".join)
def test_once_compensation_has_begun_no_later_call_changes_anything(
    saga: Saga, order: tuple[str, ...], position: int
) -> None:
    held(saga)
    for name in order[:position]:
        outcome_of(partial(CALLS[name], saga))
    saga.begin()

    with saga.writes_only_evidence():
        for name in order[position:]:
            answer = outcome_of(partial(CALLS[name], saga))
            assert isinstance(answer, dict | SettlementState | StepFenced | IdempotencyConflict)
