"""Our own answer, a review and the webhook in every order, and many at once: one verdict, and one effect."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import permutations
from typing import Any

import pytest

from settlement.ledger.keys import Row
from settlement.model.errors import IdempotencyConflict, KycUnavailable, StepFenced
from settlement.model.state import SettlementState
from settlement.model.status import Status, Step
from settlement.model.verdict import Verdict
from tests.conftest import NOW
from tests.store.rivals import at_once, callers
from tests.store.saga import LATER, Saga, outcome_of
from tests.store.verdicts import begin_review, entries, event, held, in_review, markers, own, webhook
from tests.support.kyc import APPROVED, REJECTED

CALLERS = 32
THREADS = pytest.mark.parametrize("ledger", ["dynamodb-local"], indirect=True)
BOTH = pytest.mark.parametrize("verdict", [APPROVED, REJECTED], ids=lambda each: each.decision)

CALLS: dict[str, Callable[[Saga], Any]] = {
    "own": partial(own, verdict=APPROVED),
    "begin_review": begin_review,
    "approve": partial(webhook, verdict=APPROVED, event=event(1), now=LATER),
    "reject": partial(webhook, verdict=REJECTED, event=event(2), now=LATER),
}


def assert_one_verdict(saga: Saga) -> Row:
    """Check that there is one entry, that the row agrees, and that only an approval admits the release."""
    (entry,) = entries(saga)
    row = saga.row()
    assert row["verdict"] == entry["decision"]
    assert "review" not in row
    assert ("verify" in row["steps"]) == (entry["decision"] == "APPROVED")
    release = outcome_of(partial(saga.commit, Step.RELEASE, LATER))
    assert type(release) is (dict if entry["decision"] == "APPROVED" else StepFenced)
    saga.books()
    return entry


@pytest.mark.parametrize("order", list(permutations(CALLS)), ids="-".join)
def test_in_every_order_the_first_decision_is_kept(saga: Saga, order: tuple[str, ...]) -> None:
    held(saga)
    reviewed = order.index("begin_review") < order.index("own")  # only the webhook ends a review
    decided = next(name for name in order if name != "begin_review" and not (name == "own" and reviewed))

    for name in order:
        outcome_of(partial(CALLS[name], saga))

    entry = assert_one_verdict(saga)
    assert entry["decision"] == ("REJECTED" if decided == "reject" else "APPROVED")
    assert (entry["provider"], len(markers(saga))) == ("verifications", 0 if decided == "own" else 1)


@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("order", list(permutations(("own", "begin_review", "reject"))), ids="-".join)
def test_once_compensation_has_begun_no_later_call_changes_anything(
    saga: Saga, order: tuple[str, ...], position: int
) -> None:
    held(saga)
    for name in order[:position]:
        outcome_of(partial(CALLS[name], saga))
    saga.begin()

    with saga.writes_nothing():
        for name in order[position:]:
            answer = outcome_of(partial(CALLS[name], saga))
            assert isinstance(answer, dict | SettlementState | StepFenced | IdempotencyConflict)


@THREADS
@BOTH
@pytest.mark.parametrize("start", [held, in_review])
def test_one_event_delivered_by_many_at_once_has_one_effect(
    saga: Saga, verdict: Verdict, start: Callable[[Saga], None]
) -> None:
    start(saga)

    answers = at_once([partial(webhook, caller, verdict, now=LATER) for caller in callers(saga, CALLERS)])

    (mark,) = markers(saga)
    assert answers.count(None) == 1
    assert answers.count(mark) == CALLERS - 1
    assert assert_one_verdict(saga)["decision"] == verdict.decision


@THREADS
def test_many_events_with_the_same_decision_at_once_leave_one_marker_and_one_entry(saga: Saga) -> None:
    in_review(saga)

    answers = at_once(
        [
            partial(webhook, caller, APPROVED, event(number), LATER)
            for number, caller in enumerate(callers(saga, CALLERS))
        ]
    )

    winner = answers.index(None)
    assert [row["pk"] for row in markers(saga)] == [f"KYC_EVENT#evt_{winner}"]
    assert answers.count(assert_one_verdict(saga)) == CALLERS - 1


@THREADS
def test_of_opposite_decisions_at_once_one_is_kept_and_the_other_is_a_conflict(saga: Saga) -> None:
    in_review(saga)

    answers = at_once(
        [
            partial(webhook, caller, (APPROVED, REJECTED)[number % 2], event(number), LATER)
            for number, caller in enumerate(callers(saga, CALLERS))
        ]
    )

    entry = assert_one_verdict(saga)
    lost = 1 if entry["decision"] == "APPROVED" else 0
    assert [type(answer) for answer in answers[lost::2]] == [IdempotencyConflict] * (CALLERS // 2)
    agreed = answers[1 - lost :: 2]
    assert (agreed.count(None), agreed.count(entry)) == (1, CALLERS // 2 - 1)
    assert len(markers(saga)) == 1


@THREADS
def test_one_events_id_with_contents_of_many_at_once_is_taken_by_one(saga: Saga) -> None:
    in_review(saga)

    answers = at_once(
        [
            partial(webhook, caller, APPROVED, replace(event(1), digest=f"d{number}"), LATER)
            for number, caller in enumerate(callers(saga, CALLERS))
        ]
    )

    assert answers.count(None) == 1
    assert sum(isinstance(answer, IdempotencyConflict) for answer in answers) == CALLERS - 1
    assert markers(saga)[0]["digest"] == f"d{answers.index(None)}"


@THREADS
@pytest.mark.parametrize("seed", range(3))
def test_own_answers_reviews_and_webhooks_at_once_agree_on_one_verdict(saga: Saga, seed: int) -> None:
    held(saga)
    names = [name for name in CALLS for _ in range(CALLERS // len(CALLS))]
    order = names[seed:] + names[:seed]

    answers = at_once(
        [partial(CALLS[name], caller) for name, caller in zip(order, callers(saga, CALLERS), strict=True)]
    )

    entry = assert_one_verdict(saga)
    for name, answer in zip(order, answers, strict=True):
        if name == "own":
            assert answer == entry or isinstance(answer, KycUnavailable)
        elif name == "begin_review":
            assert answer.status is Status.PROCESSING
            assert answer.is_in_review != (answer.verdict is not None)
        elif (name, entry["decision"]) in (("reject", "APPROVED"), ("approve", "REJECTED")):
            assert isinstance(answer, IdempotencyConflict)
        else:
            assert answer is None or answer in (entry, *markers(saga))
    assert answers.count(None) == len(markers(saga)) <= 1


@THREADS
def test_a_review_begun_by_many_at_once_waits_for_one_verification(saga: Saga) -> None:
    held(saga)

    answers = at_once(
        [
            partial(begin_review, caller, replace(APPROVED, reference=f"ver_{number}"), NOW)
            for number, caller in enumerate(callers(saga, CALLERS))
        ]
    )

    assert answers == [saga.state()] * CALLERS


@THREADS
def test_a_webhook_and_the_beginning_of_compensation_at_once_never_leave_a_released_payment_in_doubt(
    saga: Saga,
) -> None:
    in_review(saga)
    calls = [
        partial(webhook, caller, now=LATER) if number % 2 else caller.begin
        for number, caller in enumerate(callers(saga, CALLERS))
    ]

    answers = at_once(calls)

    row, webhooks = saga.row(), answers[1::2]
    assert row["status"] == "COMPENSATING"
    assert all(answer is None or isinstance(answer, dict | StepFenced) for answer in webhooks)
    assert webhooks.count(None) == len(markers(saga)) == len(entries(saga)) == int("verdict" in row)
    with saga.writes_nothing(), pytest.raises(StepFenced):
        saga.commit(Step.RELEASE, LATER)
