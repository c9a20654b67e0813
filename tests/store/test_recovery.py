"""What is past its deadline before its release is taken on by recovery, by one of them, and given up."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from settlement import rows
from settlement.errors import DeadlineExceeded, StepFenced
from settlement.rows import Row
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
    give_up,
    held,
    markers,
    own,
    park,
    parked,
    told,
)
from tests.support.kyc import REJECTED

AGAIN_AT = "2026-11-20T12:15:30.123Z"
GIVEN_UP_AT = "2026-11-20T12:15:00.123Z"
CALLERS = 32
THREADS = pytest.mark.parametrize("ledger", ["dynamodb-local"], indirect=True)


def listed(saga: Saga) -> Row:
    """The settlement as the index lists it."""
    (row,) = (
        row
        for shard in range(rows.IN_FLIGHT_SHARDS)
        for row in saga.ledger.store.listed(rows.in_flight_partition(shard), up_to="9")
    )
    return row


@pytest.mark.parametrize("last", [None, Step.HOLD, Step.VERIFY])
def test_what_is_past_its_deadline_is_taken_on_and_listed_again_for_later(
    saga: Saga, last: Step | None
) -> None:
    saga.reach(last)
    before = saga.row()

    row = give_up(saga, listed(saga))

    assert row == before | {"gsi1sk": AGAIN_AT, "recoveries": 1, "given_up_at": GIVEN_UP_AT}
    assert row == CLAIMED | {
        "escrow": 4820 if last else 0,
        **(so_far(last) if last else {}),
        "gsi1sk": AGAIN_AT,
        "recoveries": 1,
        "given_up_at": GIVEN_UP_AT,
    }
    assert listed(saga)["gsi1sk"] == AGAIN_AT


def test_a_rejected_settlement_that_nobody_reversed_is_taken_on(saga: Saga) -> None:
    held(saga)
    own(saga, REJECTED)

    assert give_up(saga, listed(saga))["verdict"] == "REJECTED"


def test_a_review_is_taken_on_exactly_at_its_end_and_never_before(saga: Saga) -> None:
    parked(saga)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^recover: "):
        give_up(saga, listed(saga), ENDS - timedelta(milliseconds=1))

    assert give_up(saga, listed(saga), ENDS) == PARKED | {
        "gsi1sk": "2026-11-21T12:00:30.123Z",
        "recoveries": 1,
        "given_up_at": ENDS_AT,
    }


@pytest.mark.parametrize("last", [None, Step.HOLD, Step.VERIFY])
def test_what_has_time_left_is_left_alone_until_just_before_the_deadline(
    saga: Saga, last: Step | None
) -> None:
    saga.reach(last)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"has moved on, or has time left$"):
        give_up(saga, listed(saga), JUST_BEFORE)


@pytest.mark.parametrize("status", OTHER_STATUSES)
def test_what_is_no_longer_in_process_is_left_alone(saga: Saga, status: Status) -> None:
    held(saga)
    saga.alter(status=status)

    with saga.writes_nothing(), pytest.raises(StepFenced):
        give_up(saga, listed(saga))


def test_what_has_been_released_must_go_on_and_is_never_given_up(saga: Saga) -> None:
    saga.reach(Step.RELEASE)

    with saga.writes_nothing(), pytest.raises(StepFenced):
        give_up(saga, listed(saga), DEADLINE + timedelta(days=400))


def test_a_key_that_nobody_holds_is_not_made_by_recovery(saga: Saga) -> None:
    with saga.writes_nothing(), pytest.raises(StepFenced):
        give_up(saga, {**rows.settlement_key(KEY), "gsi1sk": AGAIN_AT})


@pytest.mark.parametrize(
    "moved", [parked, lambda saga: (held(saga), give_up(saga, listed(saga)))], ids=["parked", "taken on"]
)
def test_what_has_moved_in_the_index_is_not_taken_on_by_an_old_listing(
    saga: Saga, moved: Callable[[Saga], Any]
) -> None:
    moved(saga)

    with saga.writes_nothing(), pytest.raises(StepFenced):
        give_up(saga, HELD, ENDS)


def test_what_was_taken_on_but_never_reversed_is_found_and_counted_again(saga: Saga) -> None:
    held(saga)
    give_up(saga, listed(saga))

    row = give_up(saga, listed(saga), DEADLINE + timedelta(seconds=30))

    assert (row["recoveries"], row["gsi1sk"]) == (2, "2026-11-20T12:16:00.123Z")


# Against those that would go on with it


@pytest.mark.parametrize("go_on", [own, park, told], ids=["own", "park", "told"])
def test_at_the_deadline_recovery_wins_and_nobody_goes_on(saga: Saga, go_on: Callable[..., Any]) -> None:
    held(saga)
    give_up(saga, listed(saga))

    with saga.writes_nothing(), pytest.raises(DeadlineExceeded):
        go_on(saga, now=DEADLINE)


def test_what_a_webhook_has_just_decided_is_not_given_up_by_the_listing_from_before(saga: Saga) -> None:
    parked(saga)
    old = listed(saga)
    told(saga, now=ENDS - timedelta(milliseconds=1))

    with saga.writes_nothing(), pytest.raises(StepFenced):
        give_up(saga, old, ENDS)
    with saga.writes_nothing(), pytest.raises(StepFenced):
        give_up(saga, listed(saga), ENDS)


def test_what_was_released_just_before_is_not_given_up(saga: Saga) -> None:
    saga.reach(Step.VERIFY)
    old = listed(saga)
    saga.post(Step.RELEASE, JUST_BEFORE)

    with saga.writes_nothing(), pytest.raises(StepFenced):
        give_up(saga, old)


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
    give_up(saga, listed(saga))

    with saga.writes_nothing(), pytest.raises(DeadlineExceeded):
        go_on(saga, now=JUST_BEFORE)


def test_a_review_that_was_given_up_is_not_ended_by_a_webhook_whose_clock_is_behind(saga: Saga) -> None:
    parked(saga)
    give_up(saga, listed(saga), ENDS)

    with saga.writes_nothing(), pytest.raises(DeadlineExceeded):
        told(saga, now=ENDS - timedelta(milliseconds=1))


@THREADS
def test_of_many_recoveries_at_once_one_takes_the_settlement_on(saga: Saga) -> None:
    parked(saga)
    row = listed(saga)

    answers = at_once([partial(give_up, caller, row, ENDS) for caller in callers(saga, CALLERS)])

    assert sum(isinstance(answer, dict) for answer in answers) == 1
    assert sum(isinstance(answer, StepFenced) for answer in answers) == CALLERS - 1
    assert saga.row()["recoveries"] == 1


@THREADS
@pytest.mark.parametrize(
    ("now", "winner"), [(ENDS, "recovery"), (ENDS - timedelta(milliseconds=1), "webhook")]
)
def test_a_webhook_and_recovery_at_once_and_exactly_one_of_them_wins(
    saga: Saga, now: Any, winner: str
) -> None:
    parked(saga)
    row = listed(saga)
    calls = [
        partial(told, caller, now=now) if number % 2 else partial(give_up, caller, row, now)
        for number, caller in enumerate(callers(saga, CALLERS))
    ]

    answers = at_once(calls)

    recovered, heard = answers[::2], answers[1::2]
    assert sum(isinstance(answer, dict) for answer in recovered) == int(winner == "recovery")
    assert heard.count(None) == int(winner == "webhook") == len(entries(saga)) == len(markers(saga))
    row = saga.row()
    assert ("verdict" in row, "given_up_at" in row) == (winner == "webhook", winner == "recovery")
    assert row["recoveries"] == 1


@THREADS
@pytest.mark.parametrize("now", [DEADLINE, JUST_BEFORE])
def test_a_release_and_recovery_at_once_and_exactly_one_of_them_wins(saga: Saga, now: Any) -> None:
    saga.reach(Step.VERIFY)
    row = listed(saga)
    calls = [
        partial(caller.post, Step.RELEASE, now) if number % 2 else partial(give_up, caller, row, now)
        for number, caller in enumerate(callers(saga, CALLERS))
    ]

    answers = at_once(calls)

    recovered, released = answers[::2], answers[1::2]
    if now is DEADLINE:
        assert [type(answer) for answer in released] == [DeadlineExceeded] * (CALLERS // 2)
        assert sum(isinstance(answer, dict) for answer in recovered) == 1
    else:
        assert [type(answer) for answer in released] == [dict] * (CALLERS // 2)
        assert [type(answer) for answer in recovered] == [StepFenced] * (CALLERS // 2)
    assert isinstance(outcome_of(partial(give_up, saga, row, now)), StepFenced)
    saga.books()
