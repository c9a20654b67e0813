"""The webhook's verdict: event, entry and settlement in one transaction, at any time."""

from dataclasses import replace

import pytest

from settlement.ledger.kyc_review import WebhookEvent
from settlement.model.errors import IdempotencyConflict, StepFenced
from settlement.model.status import Step
from settlement.model.verdict import Verdict
from tests.store.saga import LATER, Saga, state_of
from tests.store.verdicts import (
    EVENT,
    HELD,
    OWNER,
    TIME,
    UNDER_REVIEW,
    WEBHOOK,
    begin_review,
    concluded,
    entries,
    entry_of,
    event,
    held,
    in_review,
    marker,
    markers,
    own,
    webhook,
)
from tests.support.kyc import APPROVED, REJECTED

VERDICTS = pytest.mark.parametrize("verdict", [APPROVED, REJECTED], ids=lambda each: each.decision)
WEBHOOK_AT = "2026-11-20T17:00:00.123Z"
OTHER_KEY = "order-2026-000202"


def other_of(verdict: Verdict) -> Verdict:
    return REJECTED if verdict is APPROVED else APPROVED


@VERDICTS
def test_a_verdict_that_ends_a_review_leaves_event_entry_and_row_with_the_time_of_a_new_one(
    saga: Saga, verdict: Verdict
) -> None:
    in_review(saga)
    before = saga.ledger.rows()

    assert webhook(saga, verdict) is None

    row = concluded(UNDER_REVIEW, verdict, owner=OWNER, owner_epoch=1, **TIME)
    expected = [
        *(row if found == UNDER_REVIEW else found for found in before),
        marker(),
        entry_of(verdict, WEBHOOK_AT),
    ]
    assert saga.ledger.rows() == sorted(expected, key=lambda found: (found["pk"], found["sk"]))
    assert list(saga.ledger.store.listed("IN_FLIGHT#2", up_to="2026-11-20T17:00:30.122Z", limit=9)) == []
    (listed,) = saga.ledger.store.listed("IN_FLIGHT#2", up_to="2026-11-20T17:00:30.123Z", limit=9)
    assert listed["pk"] == UNDER_REVIEW["pk"]


def test_after_an_approval_the_settlement_continues_to_its_end(saga: Saga) -> None:
    in_review(saga)
    webhook(saga)

    saga.commit(Step.RELEASE, WEBHOOK)
    saga.commit(Step.FEE, WEBHOOK)

    assert saga.row()["status"] == "SETTLED"
    assert [row["available"] for row in saga.books()[:2]] == [5180, 5272]


@VERDICTS
def test_a_webhook_before_our_own_answer_takes_effect_and_the_answer_finds_it(
    saga: Saga, verdict: Verdict
) -> None:
    held(saga)

    assert webhook(saga, verdict, now=LATER) is None

    time = {"deadline_at": "2026-11-20T12:15:07.123Z", "gsi1sk": "2026-11-20T12:00:37.123Z"}
    time |= {"in_flight_since": "2026-11-20T12:00:07.123Z"}
    row = concluded(HELD, verdict, owner=OWNER, owner_epoch=1, **time)
    assert saga.row() == row
    with saga.writes_nothing():
        assert own(saga, other_of(verdict)) == entry_of(verdict, "2026-11-20T12:00:07.123Z")
        assert begin_review(saga, now=LATER) == state_of(row)


@VERDICTS
def test_a_webhook_after_our_own_answer_changes_nothing_not_even_the_owner(
    saga: Saga, verdict: Verdict
) -> None:
    held(saga)
    entry = own(saga, verdict)

    with saga.writes_nothing():
        assert webhook(saga, verdict, now=LATER) == entry


@VERDICTS
def test_another_decision_than_the_one_on_record_is_a_conflict_for_good(saga: Saga, verdict: Verdict) -> None:
    in_review(saga)
    webhook(saga, verdict)

    with (
        saga.writes_nothing(),
        pytest.raises(IdempotencyConflict, match=f"^decision: {verdict.decision} is on record, for good$"),
    ):
        webhook(saga, other_of(verdict), event(2))


@VERDICTS
def test_the_same_event_again_is_a_replay_in_any_status_of_the_settlement(
    saga: Saga, verdict: Verdict
) -> None:
    in_review(saga)
    webhook(saga, verdict)
    with saga.writes_nothing():
        assert webhook(saga, verdict) == marker()

    saga.begin()
    with saga.writes_nothing():
        assert webhook(saga, verdict) == marker()


@VERDICTS
def test_another_event_with_the_same_decision_is_a_replay_and_leaves_no_marker(
    saga: Saga, verdict: Verdict
) -> None:
    in_review(saga)
    webhook(saga, verdict)

    with saga.writes_nothing():
        assert webhook(saga, replace(verdict, reason="in other words"), event(2)) == entry_of(
            verdict, WEBHOOK_AT
        )


@pytest.mark.parametrize("content", ["d1x", ""])
def test_an_events_id_is_refused_to_other_content(saga: Saga, content: str) -> None:
    in_review(saga)
    webhook(saga)

    with (
        saga.writes_nothing(),
        pytest.raises(
            IdempotencyConflict, match=r"^webhook-id: was used before by an event with other content$"
        ),
    ):
        webhook(saga, APPROVED, WebhookEvent(EVENT.id, content))


def test_an_events_id_is_refused_to_another_settlement(saga: Saga) -> None:
    in_review(saga)
    webhook(saga)
    other = saga.asking(key=OTHER_KEY)
    other.claim()
    other.commit(Step.HOLD)

    with saga.writes_nothing(), pytest.raises(IdempotencyConflict, match=r"^webhook-id: "):
        webhook(other, APPROVED, WebhookEvent(EVENT.id, "d2"), now=LATER)


def test_a_decision_on_another_verification_does_not_end_the_review(saga: Saga) -> None:
    in_review(saga)

    with (
        saga.writes_nothing(),
        pytest.raises(StepFenced, match=r"^reference: the settlement waits for another verification$"),
    ):
        webhook(saga, replace(APPROVED, reference="ver_2"))

    assert webhook(saga) is None


def test_a_verdict_touches_only_the_settlement_whose_key_it_names(saga: Saga) -> None:
    in_review(saga)
    other = saga.asking(key=OTHER_KEY)
    other.claim()
    other.commit(Step.HOLD)
    begin_review(other, replace(APPROVED, reference="ver_other"))
    untouched = saga.row()

    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^reference: "):
        webhook(other)
    assert webhook(other, replace(APPROVED, reference="ver_other")) is None

    assert saga.row() == untouched
    assert (other.row()["owner"], other.row()["verdict"]) == (f"{OTHER_KEY}-decided", "APPROVED")


def test_a_refused_event_leaves_no_marker_so_that_it_may_come_again(saga: Saga) -> None:
    saga.fund()
    saga.claim()
    with pytest.raises(StepFenced):
        webhook(saga, now=LATER)
    assert markers(saga) == []
    saga.commit(Step.HOLD)

    assert webhook(saga, now=LATER) is None

    assert [row["pk"] for row in markers(saga)] == ["KYC_EVENT#evt_1"]


def test_a_verdict_is_not_taken_a_second_time_even_if_its_entry_and_event_are_lost(saga: Saga) -> None:
    in_review(saga)
    webhook(saga, REJECTED)
    for lost in (*entries(saga), *markers(saga)):
        key = {name: {"S": lost[name]} for name in ("pk", "sk")}
        saga.ledger.client.delete_item(TableName=saga.ledger.table_name, Key=key)

    with saga.writes_nothing():
        for ask in (webhook, own):
            with pytest.raises(StepFenced, match=r"^verify: "):
                ask(saga, APPROVED)
