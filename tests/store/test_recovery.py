"""What is past its deadline before its release is taken over by recovery, by one of them, and given up.

How it takes over what has time left, or is being reversed already: see test_takeovers.py.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from settlement import recovery, rows
from settlement.errors import DeadlineExceeded, StepFenced
from settlement.status import Status, Step
from tests.store.rivals import at_once, callers
from tests.store.saga import CLAIMED, DEADLINE, KEY, OTHER_STATUSES, Saga, outcome_of, so_far
from tests.store.verdicts import (
    ENDS,
    ENDS_AT,
    HELD,
    JUST_BEFORE,
    PARKED,
    entries,
    held,
    markers,
    own,
    park,
    parked,
    take_over,
    told,
)
from tests.support.kyc import REJECTED

AGAIN_AT = "2026-11-20T12:16:00.123Z"
OWNER = f"{KEY}-compensate-1"
GIVEN_UP_AT = "2026-11-20T12:15:00.123Z"
CALLERS = 32
THREADS = pytest.mark.parametrize("ledger", ["dynamodb-local"], indirect=True)


def listed_at(saga: Saga) -> str:
    """When the index has the settlement due."""
    (row,) = (
        row
        for shard in range(rows.IN_FLIGHT_SHARDS)
        for row in saga.ledger.store.listed(rows.in_flight_partition(shard), up_to="9", limit=9)
    )
    return str(row["gsi1sk"])


@pytest.mark.parametrize("last", [None, Step.HOLD, Step.VERIFY])
def test_what_is_past_its_deadline_is_taken_on_and_listed_again_for_later(
    saga: Saga, last: Step | None
) -> None:
    saga.reach(last)
    before = saga.row()

    row = take_over(saga)

    taken = {"owner": OWNER, "gsi1sk": AGAIN_AT, "recoveries": 1, "given_up_at": GIVEN_UP_AT}
    assert row == before | taken
    assert row == CLAIMED | {
        "escrow": 4820 if last else 0,
        **(so_far(last) if last else {}),
        **taken,
    }
    assert listed_at(saga) == AGAIN_AT


def test_a_rejected_settlement_that_nobody_reversed_is_taken_on(saga: Saga) -> None:
    held(saga)
    own(saga, REJECTED)

    assert take_over(saga)["verdict"] == "REJECTED"


def test_a_review_is_given_up_exactly_at_its_end_and_before_it_there_is_nothing_to_take_over(
    saga: Saga,
) -> None:
    parked(saga)

    assert recovery.take_over(saga.row(), ENDS - timedelta(milliseconds=1), saga.terms) is None

    assert take_over(saga, now=ENDS) == PARKED | {
        "owner": OWNER,
        "gsi1sk": "2026-11-21T12:01:00.123Z",
        "recoveries": 1,
        "given_up_at": ENDS_AT,
    }


def later_deadline(saga: Saga) -> None:
    """As a decision moves it; nothing else that the index or the number would tell."""
    saga.alter(deadline_at="2026-11-20T12:15:00.124Z")


@pytest.mark.parametrize("last", [None, Step.HOLD, Step.VERIFY])
def test_what_has_got_more_time_since_it_was_seen_is_not_given_up(saga: Saga, last: Step | None) -> None:
    saga.reach(last)
    seen = saga.row()
    later_deadline(saga)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^recover: the settlement has moved on$"):
        take_over(saga, seen)


@pytest.mark.parametrize("status", OTHER_STATUSES)
def test_what_is_no_longer_in_process_is_not_given_up(saga: Saga, status: Status) -> None:
    held(saga)
    seen = saga.row()
    saga.alter(status=status)

    with saga.writes_nothing(), pytest.raises(StepFenced):
        take_over(saga, seen)


def test_what_has_been_released_goes_on_to_its_fee_however_late_it_is(saga: Saga) -> None:
    saga.reach(Step.RELEASE)

    row = take_over(saga, now=DEADLINE + timedelta(days=400))

    assert (row["owner"], "given_up_at" in row) == (f"{KEY}-r1", False)
    saga.post(Step.FEE, DEADLINE + timedelta(days=400))
    assert saga.row()["status"] == "SETTLED"


def test_a_key_that_nobody_holds_is_not_made_by_recovery(saga: Saga) -> None:
    for seen, now in ((HELD, JUST_BEFORE), (HELD, DEADLINE), (HELD | {"status": "LIMBO"}, DEADLINE)):
        with saga.writes_nothing(), pytest.raises(StepFenced):
            take_over(saga, seen, now)


@pytest.mark.parametrize(
    "moved", [parked, lambda saga: (held(saga), take_over(saga))], ids=["parked", "taken over"]
)
def test_what_has_moved_in_the_index_is_not_given_up_by_whoever_saw_it_before(
    saga: Saga, moved: Callable[[Saga], Any]
) -> None:
    moved(saga)

    with saga.writes_nothing(), pytest.raises(StepFenced):
        take_over(saga, HELD, ENDS)


def test_what_was_given_up_but_never_reversed_is_found_and_counted_again(saga: Saga) -> None:
    held(saga)
    take_over(saga)

    row = take_over(saga, now=DEADLINE + timedelta(seconds=60))

    assert (row["recoveries"], row["gsi1sk"]) == (2, "2026-11-20T12:18:00.123Z")
    assert row["owner"] == f"{KEY}-compensate-2"


# Against those that would go on with it


@pytest.mark.parametrize("go_on", [own, park, told], ids=["own", "park", "told"])
def test_at_the_deadline_recovery_wins_and_nobody_goes_on(saga: Saga, go_on: Callable[..., Any]) -> None:
    held(saga)
    take_over(saga)

    with saga.writes_nothing(), pytest.raises(DeadlineExceeded):
        go_on(saga, now=DEADLINE)


def test_what_a_webhook_has_just_decided_is_not_given_up_by_the_listing_from_before(saga: Saga) -> None:
    parked(saga)
    old = saga.row()
    told(saga, now=ENDS - timedelta(milliseconds=1))

    with saga.writes_nothing(), pytest.raises(StepFenced):
        take_over(saga, old, ENDS)
    assert take_over(saga, now=ENDS)["owner"] == f"{KEY}-r2"
    assert "given_up_at" not in saga.row()


def test_what_was_released_just_before_is_not_given_up(saga: Saga) -> None:
    saga.reach(Step.VERIFY)
    old = saga.row()
    saga.post(Step.RELEASE, JUST_BEFORE)

    with saga.writes_nothing(), pytest.raises(StepFenced):
        take_over(saga, old)


@pytest.mark.parametrize(
    ("last", "go_on"),
    [
        (None, lambda saga, now: saga.post(Step.HOLD, now)),
        (Step.HOLD, own),
        (Step.HOLD, park),
        (Step.HOLD, told),
        (Step.VERIFY, lambda saga, now: saga.post(Step.RELEASE, now)),
    ],
    ids=["hold", "own", "park", "told", "release"],
)
def test_what_was_given_up_goes_no_further_though_the_caller_looked_at_the_clock_in_time(
    saga: Saga, last: Step | None, go_on: Callable[..., Any]
) -> None:
    """A function takes the time when it begins and may write seconds later. By then its money is being given
    back, so a webhook would be told that it was heard, and the payee be paid what must be reclaimed.
    """
    saga.reach(last)
    take_over(saga)

    with saga.writes_nothing(), pytest.raises(DeadlineExceeded):
        go_on(saga, now=JUST_BEFORE)


def test_a_review_that_was_given_up_is_not_ended_by_a_webhook_whose_clock_is_behind(saga: Saga) -> None:
    parked(saga)
    take_over(saga, now=ENDS)

    with saga.writes_nothing(), pytest.raises(DeadlineExceeded):
        told(saga, now=ENDS - timedelta(milliseconds=1))


@THREADS
def test_of_many_recoveries_at_once_one_takes_the_settlement_on(saga: Saga) -> None:
    parked(saga)
    row = saga.row()

    answers = at_once([partial(take_over, caller, row, ENDS) for caller in callers(saga, CALLERS)])

    assert sum(isinstance(answer, dict) for answer in answers) == 1
    assert sum(isinstance(answer, StepFenced) for answer in answers) == CALLERS - 1
    assert saga.row()["recoveries"] == 1


EARLY = timedelta(milliseconds=1)
"""By how much a function's clock may be behind: it has taken the time before it writes."""


@THREADS
@pytest.mark.parametrize("behind", [timedelta(), EARLY], ids=["late", "in time"])
def test_a_webhook_and_recovery_at_once_and_exactly_one_of_them_wins(saga: Saga, behind: timedelta) -> None:
    parked(saga)
    row = saga.row()
    calls = [
        partial(told, caller, now=ENDS - behind) if number % 2 else partial(take_over, caller, row, ENDS)
        for number, caller in enumerate(callers(saga, CALLERS))
    ]

    answers = at_once(calls)

    recovered = sum(isinstance(answer, dict) for answer in answers[::2])
    heard = answers[1::2].count(None)
    assert recovered + heard == 1
    assert behind or recovered
    assert heard == len(entries(saga)) == len(markers(saga))
    row = saga.row()
    assert ("verdict" in row, "given_up_at" in row) == (bool(heard), bool(recovered))
    assert (row["recoveries"], row["owner"]) == (1, OWNER if recovered else f"{KEY}-decided")


@THREADS
@pytest.mark.parametrize("behind", [timedelta(), EARLY], ids=["late", "in time"])
def test_a_release_and_a_recovery_that_gives_up_at_once_and_exactly_one_of_them_wins(
    saga: Saga, behind: timedelta
) -> None:
    saga.reach(Step.VERIFY)
    row = saga.row()
    calls = [
        partial(caller.post, Step.RELEASE, DEADLINE - behind)
        if number % 2
        else partial(take_over, caller, row, DEADLINE)
        for number, caller in enumerate(callers(saga, CALLERS))
    ]

    answers = at_once(calls)

    recovered = sum(isinstance(answer, dict) for answer in answers[::2])
    refused = sum(isinstance(answer, DeadlineExceeded) for answer in answers[1::2])
    assert refused == (CALLERS // 2 if recovered else 0)
    assert recovered == ("release" not in saga.row()["steps"])
    assert behind or recovered
    assert isinstance(outcome_of(partial(take_over, saga, row, DEADLINE)), StepFenced)
    saga.books()
