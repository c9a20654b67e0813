"""Recovery expires a settlement past its deadline and not released: one run takes it over, to reverse it.

For the takeovers of settlements that have time left, or are being reversed already, see test_takeovers.py.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from settlement.ledger import keys
from settlement.model.errors import DeadlineExceeded, StepFenced
from settlement.model.state import SettlementState
from settlement.model.status import Status, Step
from settlement.policy import recovery
from tests.store.rivals import at_once, callers
from tests.store.saga import CLAIMED, DEADLINE, KEY, OTHER_STATUSES, Saga, outcome_of, so_far, state_of
from tests.store.verdicts import (
    ENDS,
    ENDS_AT,
    HELD,
    JUST_BEFORE,
    UNDER_REVIEW,
    begin_review,
    entries,
    held,
    in_review,
    markers,
    own,
    take_over,
    webhook,
)
from tests.support.kyc import REJECTED

AGAIN_AT = "2026-11-20T12:16:00.123Z"
OWNER = f"{KEY}-compensate-1"
EXPIRED_AT = "2026-11-20T12:15:00.123Z"
CALLERS = 32
THREADS = pytest.mark.parametrize("ledger", ["dynamodb-local"], indirect=True)


def listed_at(saga: Saga) -> str:
    """Return the time at which the index lists the settlement."""
    (row,) = (
        row
        for shard in range(keys.IN_FLIGHT_SHARDS)
        for row in saga.ledger.store.listed(keys.in_flight_partition(shard), up_to="9", limit=9)
    )
    return str(row["gsi1sk"])


@pytest.mark.parametrize("last", [None, Step.HOLD, Step.VERIFY])
def test_an_overdue_settlement_is_taken_over_and_listed_again_for_later(
    saga: Saga, last: Step | None
) -> None:
    saga.reach(last)
    before = saga.row()

    state = take_over(saga)

    taken = {"owner": OWNER, "gsi1sk": AGAIN_AT, "owner_epoch": 1, "expired_at": EXPIRED_AT}
    assert state == state_of(before | taken)
    assert saga.row() == before | taken
    assert saga.row() == CLAIMED | {
        "escrow": 4820 if last else 0,
        **(so_far(last) if last else {}),
        **taken,
    }
    assert listed_at(saga) == AGAIN_AT


def test_a_rejected_settlement_that_was_never_reversed_is_taken_over(saga: Saga) -> None:
    held(saga)
    own(saga, REJECTED)

    assert take_over(saga).verdict == "REJECTED"


def test_a_review_expires_exactly_at_its_end_and_is_not_taken_over_before(
    saga: Saga,
) -> None:
    in_review(saga)

    assert recovery.take_over(saga.state(), ENDS - timedelta(milliseconds=1), saga.config) is None

    expired = UNDER_REVIEW | {
        "owner": OWNER,
        "gsi1sk": "2026-11-21T12:01:00.123Z",
        "owner_epoch": 1,
        "expired_at": ENDS_AT,
    }
    assert take_over(saga, now=ENDS) == state_of(expired)
    assert saga.row() == expired


def later_deadline(saga: Saga) -> None:
    """Move the deadline as a verdict does, but neither the index nor the owner's epoch."""
    saga.alter(deadline_at="2026-11-20T12:15:00.124Z")


@pytest.mark.parametrize("last", [None, Step.HOLD, Step.VERIFY])
def test_a_settlement_with_a_later_deadline_than_was_seen_does_not_expire(
    saga: Saga, last: Step | None
) -> None:
    saga.reach(last)
    seen = saga.state()
    later_deadline(saga)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^recover: the settlement has moved on$"):
        take_over(saga, seen)


@pytest.mark.parametrize("status", OTHER_STATUSES)
def test_a_settlement_in_any_other_status_does_not_expire(saga: Saga, status: Status) -> None:
    held(saga)
    seen = saga.state()
    saga.alter(status=status)

    with saga.writes_nothing(), pytest.raises(StepFenced):
        take_over(saga, seen)


def test_a_released_settlement_continues_to_its_fee_however_late_it_is(saga: Saga) -> None:
    saga.reach(Step.RELEASE)

    state = take_over(saga, now=DEADLINE + timedelta(days=400))

    assert (state.owner, state.is_expired) == (f"{KEY}-r1", False)
    saga.commit(Step.FEE, DEADLINE + timedelta(days=400))
    assert saga.row()["status"] == "SETTLED"


def test_recovery_makes_no_row_of_an_unclaimed_key(saga: Saga) -> None:
    for seen, now in ((HELD, JUST_BEFORE), (HELD, DEADLINE), (HELD | {"status": "LIMBO"}, DEADLINE)):
        with saga.writes_nothing(), pytest.raises(StepFenced):
            take_over(saga, state_of(seen), now)


@pytest.mark.parametrize(
    "moved", [in_review, lambda saga: (held(saga), take_over(saga))], ids=["in_review", "taken over"]
)
def test_a_settlement_that_has_moved_in_the_index_is_not_expired_by_an_earlier_look(
    saga: Saga, moved: Callable[[Saga], Any]
) -> None:
    moved(saga)

    with saga.writes_nothing(), pytest.raises(StepFenced):
        take_over(saga, state_of(HELD), ENDS)


def test_an_expired_settlement_that_was_never_reversed_is_taken_over_again(saga: Saga) -> None:
    held(saga)
    take_over(saga)

    state = take_over(saga, now=DEADLINE + timedelta(seconds=60))

    assert (state.owner_epoch, state.listed_at) == (2, "2026-11-20T12:18:00.123Z")
    assert state.owner == f"{KEY}-compensate-2"


# Against the calls that would continue it


@pytest.mark.parametrize("proceed", [own, begin_review, webhook], ids=["own", "begin_review", "webhook"])
def test_at_the_deadline_recovery_wins_and_no_other_call_continues(
    saga: Saga, proceed: Callable[..., Any]
) -> None:
    held(saga)
    take_over(saga)

    with saga.writes_nothing(), pytest.raises(DeadlineExceeded):
        proceed(saga, now=DEADLINE)


def test_a_settlement_that_a_webhook_has_just_decided_is_not_expired_by_an_earlier_look(saga: Saga) -> None:
    in_review(saga)
    old = saga.state()
    webhook(saga, now=ENDS - timedelta(milliseconds=1))

    with saga.writes_nothing(), pytest.raises(StepFenced):
        take_over(saga, old, ENDS)
    assert take_over(saga, now=ENDS).owner == f"{KEY}-r2"
    assert "expired_at" not in saga.row()


def test_a_settlement_released_just_before_its_deadline_does_not_expire(saga: Saga) -> None:
    saga.reach(Step.VERIFY)
    old = saga.state()
    saga.commit(Step.RELEASE, JUST_BEFORE)

    with saga.writes_nothing(), pytest.raises(StepFenced):
        take_over(saga, old)


@pytest.mark.parametrize(
    ("last", "proceed"),
    [
        (None, lambda saga, now: saga.commit(Step.HOLD, now)),
        (Step.HOLD, own),
        (Step.HOLD, begin_review),
        (Step.HOLD, webhook),
        (Step.VERIFY, lambda saga, now: saga.commit(Step.RELEASE, now)),
    ],
    ids=["hold", "own", "begin_review", "webhook", "release"],
)
def test_an_expired_settlement_goes_no_further_though_the_caller_took_the_time_before(
    saga: Saga, last: Step | None, proceed: Callable[..., Any]
) -> None:
    """A function takes the time when it begins and may write seconds later. By then a reversal refunds the
    money: a late verdict would be accepted in vain, and a late release would have to be reclaimed.
    """
    saga.reach(last)
    take_over(saga)

    with saga.writes_nothing(), pytest.raises(DeadlineExceeded):
        proceed(saga, now=JUST_BEFORE)


def test_an_expired_review_is_not_ended_by_a_webhook_whose_clock_lags(saga: Saga) -> None:
    in_review(saga)
    take_over(saga, now=ENDS)

    with saga.writes_nothing(), pytest.raises(DeadlineExceeded):
        webhook(saga, now=ENDS - timedelta(milliseconds=1))


@THREADS
def test_of_many_recoveries_at_once_one_takes_the_settlement_over(saga: Saga) -> None:
    in_review(saga)
    seen = saga.state()

    answers = at_once([partial(take_over, caller, seen, ENDS) for caller in callers(saga, CALLERS)])

    assert sum(isinstance(answer, SettlementState) for answer in answers) == 1
    assert sum(isinstance(answer, StepFenced) for answer in answers) == CALLERS - 1
    assert saga.row()["owner_epoch"] == 1


EARLY = timedelta(milliseconds=1)
"""The lag of a function's clock: it takes the time before it writes."""


@THREADS
@pytest.mark.parametrize("behind", [timedelta(), EARLY], ids=["late", "in time"])
def test_a_webhook_and_recovery_at_once_and_exactly_one_of_them_wins(saga: Saga, behind: timedelta) -> None:
    in_review(saga)
    seen = saga.state()
    calls = [
        partial(webhook, caller, now=ENDS - behind) if number % 2 else partial(take_over, caller, seen, ENDS)
        for number, caller in enumerate(callers(saga, CALLERS))
    ]

    answers = at_once(calls)

    recovered = sum(isinstance(answer, SettlementState) for answer in answers[::2])
    heard = answers[1::2].count(None)
    assert recovered + heard == 1
    assert behind or recovered
    assert heard == len(entries(saga)) == len(markers(saga))
    row = saga.row()
    assert ("verdict" in row, "expired_at" in row) == (bool(heard), bool(recovered))
    assert (row["owner_epoch"], row["owner"]) == (1, OWNER if recovered else f"{KEY}-decided")


@THREADS
@pytest.mark.parametrize("behind", [timedelta(), EARLY], ids=["late", "in time"])
def test_a_release_and_an_expiry_at_once_and_exactly_one_of_them_wins(saga: Saga, behind: timedelta) -> None:
    saga.reach(Step.VERIFY)
    seen = saga.state()
    calls = [
        partial(caller.commit, Step.RELEASE, DEADLINE - behind)
        if number % 2
        else partial(take_over, caller, seen, DEADLINE)
        for number, caller in enumerate(callers(saga, CALLERS))
    ]

    answers = at_once(calls)

    recovered = sum(isinstance(answer, SettlementState) for answer in answers[::2])
    refused = sum(isinstance(answer, DeadlineExceeded) for answer in answers[1::2])
    assert refused == (CALLERS // 2 if recovered else 0)
    assert recovered == ("release" not in saga.row()["steps"])
    assert behind or recovered
    assert isinstance(outcome_of(partial(take_over, saga, seen, DEADLINE)), StepFenced)
    saga.books()
