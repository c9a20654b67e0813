"""A review suspends the settlement: its money stays held, deadline and index move to the review's end."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from settlement.ledger import entries as ledger_entries
from settlement.ledger import kyc_review
from settlement.model.errors import DeadlineExceeded, IdempotencyConflict, KycUnavailable, StepFenced
from settlement.model.status import Status, Step
from settlement.model.verdict import Verdict
from tests.conftest import NOW
from tests.store.saga import DEADLINE, LATER, OTHER_STATUSES, Saga, state_of
from tests.store.verdicts import (
    ASKED,
    ENDS,
    HELD,
    JUST_BEFORE,
    UNDER_REVIEW,
    begin_review,
    concluded,
    entries,
    held,
    in_review,
    own,
    webhook,
)
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED

Call = Callable[..., Any]
VERDICTS = pytest.mark.parametrize("verdict", [APPROVED, REJECTED], ids=lambda each: each.decision)
ANY = pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)


def test_a_review_holds_the_money_and_moves_deadline_and_index_to_its_end(saga: Saga) -> None:
    held(saga)
    before = saga.ledger.rows()

    state = begin_review(saga)

    assert state == state_of(UNDER_REVIEW)
    assert saga.ledger.rows() == [UNDER_REVIEW if found == HELD else found for found in before]
    assert list(saga.ledger.store.listed("IN_FLIGHT#2", up_to="2026-11-21T12:00:00.122Z", limit=9)) == []
    (listed,) = saga.ledger.store.listed("IN_FLIGHT#2", up_to="2026-11-21T12:00:00.123Z", limit=9)
    assert listed["pk"] == UNDER_REVIEW["pk"]


@pytest.mark.parametrize("again", [IN_REVIEW, replace(IN_REVIEW, reference="ver_2")])
def test_a_settlement_in_review_stays_in_that_review_until_its_first_end(saga: Saga, again: Verdict) -> None:
    in_review(saga)

    with saga.writes_nothing():
        assert begin_review(saga, again, LATER, ENDS + timedelta(hours=1)) == state_of(UNDER_REVIEW)
        assert begin_review(saga, again, ENDS, ENDS + timedelta(hours=24)) == state_of(UNDER_REVIEW)


@VERDICTS
def test_our_own_answer_gives_way_to_a_review_that_another_call_was_told_of(
    saga: Saga, verdict: Verdict
) -> None:
    in_review(saga)

    with saga.writes_nothing(), pytest.raises(KycUnavailable, match=r"^kyc: another call was told "):
        own(saga, verdict)

    assert entries(saga) == []


@VERDICTS
def test_a_first_verdict_is_kept_and_no_review_begins(saga: Saga, verdict: Verdict) -> None:
    held(saga)
    own(saga, verdict)

    with saga.writes_nothing():
        assert begin_review(saga, now=LATER) == state_of(concluded(HELD, verdict))


def test_a_late_review_finds_the_verdict_even_after_compensation_began(saga: Saga) -> None:
    held(saga)
    own(saga, REJECTED)
    state = saga.begin()

    with saga.writes_nothing():
        assert begin_review(saga, now=LATER) == state


@ANY
@pytest.mark.parametrize("status", OTHER_STATUSES)
@pytest.mark.parametrize("start", [held, in_review])
def test_no_verdict_and_no_review_gets_past_the_fence(
    saga: Saga, ask: Call, status: Status, start: Call
) -> None:
    start(saga)
    saga.alter(status=status)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=rf"^verify: the settlement is {status} "):
        ask(saga, now=LATER)


@ANY
@pytest.mark.parametrize("start", [held, in_review])
def test_a_verdict_after_compensation_began_is_refused(saga: Saga, ask: Call, start: Call) -> None:
    start(saga)
    saga.begin()

    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^verify: the settlement is COMPENSATING "):
        ask(saga, now=LATER)


@ANY
def test_neither_comes_before_the_hold(saga: Saga, ask: Call) -> None:
    saga.start()

    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^verify: .* with steps \[\] committed$"):
        ask(saga, now=LATER)


@ANY
def test_neither_is_for_an_unclaimed_key(saga: Saga, ask: Call) -> None:
    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"was never claimed$"):
        ask(saga, now=LATER)


@ANY
@pytest.mark.parametrize("before", ["held", "in_review", "concluded"])
def test_neither_is_for_other_content_than_the_key_was_claimed_with(
    saga: Saga, ask: Call, before: str
) -> None:
    in_review(saga) if before == "in_review" else held(saga)
    if before == "concluded":
        own(saga)

    with saga.writes_nothing(), pytest.raises(IdempotencyConflict, match="other content"):
        ask(saga.asking(amount=4821), now=LATER)


@pytest.mark.parametrize(
    ("start", "end", "ask"),
    [
        *((held, DEADLINE, ask) for ask in ASKED.values()),
        *((in_review, ENDS, ask) for ask in (webhook,)),  # only the webhook ends a review
    ],
)
def test_each_comes_too_late_exactly_at_the_deadline_and_in_time_just_before_it(
    saga: Saga, start: Call, end: datetime, ask: Call
) -> None:
    start(saga)

    with saga.writes_nothing():
        for late in (end, end + timedelta(milliseconds=1), end + timedelta(days=400)):
            with pytest.raises(DeadlineExceeded, match=r"^verify: the settlement's deadline was "):
                ask(saga, now=late)

    ask(saga, now=end - timedelta(milliseconds=1))
    assert ("review" in saga.row()) == (ask is begin_review)
    assert ("verdict" in saga.row()) == (ask is not begin_review)


def test_a_review_is_a_wait_for_the_verdict_long_after_the_first_deadline(saga: Saga) -> None:
    held(saga)
    begin_review(saga, now=JUST_BEFORE)

    assert webhook(saga, now=ENDS - timedelta(milliseconds=1)) is None
    assert entries(saga)[0]["posted_at"] == "2026-11-21T12:00:00.122Z"


def test_nothing_is_released_while_a_review_lasts(saga: Saga) -> None:
    in_review(saga)

    with saga.writes_nothing(), pytest.raises(StepFenced):
        saga.commit(Step.RELEASE, LATER)


def test_a_settlement_in_review_can_be_reversed_and_the_payer_is_refunded(saga: Saga) -> None:
    in_review(saga)
    saga.begin()

    saga.reverse(Step.FEE)
    saga.reverse(Step.RELEASE)
    saga.reverse(Step.HOLD)

    assert [row["available"] for row in saga.books()[:2]] == [10_000, 500]
    assert "gsi1pk" not in saga.row()


@pytest.mark.parametrize(
    "write",
    [
        lambda saga: ledger_entries.verdict(saga.settlement, APPROVED, NOW),
        lambda saga: kyc_review.event_marker(kyc_review.WebhookEvent("evt_1", "d1"), saga.settlement, NOW),
    ],
    ids=["entry", "marker"],
)
def test_a_failed_condition_without_a_row_is_taken_for_a_conflict(saga: Saga, write: Call) -> None:
    assert isinstance(write(saga).on_failure(None), IdempotencyConflict)
