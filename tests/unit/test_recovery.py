"""Recovery decides by the row how a settlement goes on, who is its next owner, and when to look again."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from settlement import recovery, rows
from settlement.errors import StepFenced
from settlement.recovery import Action, Takeover
from settlement.request import parse_settlement
from settlement.rows import Row
from settlement.status import Status, Step
from tests.conftest import NOW
from tests.unit.conditions import admits
from tests.unit.every_row import AFTER, AT, BEFORE, MOVED, PREFIXES, settlement_row, verdicts
from tests.unit.table import Table, applied
from tests.unit.vectors import IN_HASTE, LISTED, SETTLEMENT, STALLED, STANDS, TERMS

NAME_LENGTH_MAX = 80
"""Of an execution, by Step Functions."""

FAR = rows.timestamp(NOW + timedelta(days=1))
MILLISECOND = timedelta(milliseconds=1)


def stalled(**changes: Any) -> Row:
    return STALLED | {"deadline_at": FAR} | changes


def take_over(row: Row, now: datetime = NOW) -> Takeover:
    takeover = recovery.take_over(row, now, TERMS)
    assert takeover is not None
    return takeover


# What is done


@pytest.mark.parametrize("status", Status)
def test_how_a_settlement_goes_on_follows_from_its_status_its_release_its_deadline_and_its_review(
    status: Status,
) -> None:
    for steps in PREFIXES:
        for deadline_at in (BEFORE, AT, AFTER):
            for verified in verdicts(steps):
                row = {**STALLED, **settlement_row(status, set(steps), deadline_at, **verified)}
                row = row if steps else {name: row[name] for name in row if name != "steps"}
                expected = {
                    Status.COMPENSATING: (Action.COMPENSATE, "compensate-1"),
                    Status.LIMBO: (Action.PAGE, "compensate-1"),
                }.get(status)
                if status is Status.PROCESSING:
                    if Step.RELEASE not in steps and deadline_at != AFTER:
                        expected = (Action.COMPENSATE, "compensate-1")
                    elif "review" not in verified:
                        expected = (Action.SETTLE, "r1")

                takeover = recovery.take_over(row, NOW, TERMS)

                assert (takeover is None) == (expected is None), row
                if takeover and expected:
                    assert takeover.action is expected[0]
                    assert takeover.execution == f"{SETTLEMENT.key}-{expected[1]}"
                    assert (
                        takeover.write.parameters["ExpressionAttributeValues"][":owner"] == takeover.execution
                    )
                    assert admits(takeover.write, row)


@pytest.mark.parametrize("how", STANDS)
def test_whatever_is_started_is_given_the_very_settlement_and_an_error_only_to_give_up(how: str) -> None:
    takeover = take_over(STALLED | STANDS[how])

    given = takeover.input if takeover.action is Action.SETTLE else takeover.input["settlement"]
    assert parse_settlement(given, TERMS) == SETTLEMENT
    errors = {"processing.overdue": "the time to settle", "processing.review_over": "the review"}
    if how in errors:
        assert takeover.input["error"]["Error"] == "DeadlineExceeded"
        assert takeover.input["error"]["Cause"].startswith(f"recover: {errors[how]}")
    elif takeover.action is not Action.SETTLE:
        assert takeover.input.keys() == {"settlement"}


def test_what_is_driven_on_keeps_the_deadline_that_its_request_has_named() -> None:
    row = stalled(**IN_HASTE.to_row(), **rows.settlement_key(IN_HASTE.key))

    assert take_over(row).input == IN_HASTE.to_wire(TERMS)
    assert parse_settlement(take_over(row).input, TERMS) == IN_HASTE


def test_a_settlement_that_is_gone_is_not_made_again() -> None:
    for stands in STANDS.values():
        assert not admits(take_over(STALLED | stands).write, None)
    assert not admits(recovery.set_aside(STALLED, NOW), None)
    assert not admits(recovery.postpone(STALLED, NOW, TERMS), None)


@pytest.mark.parametrize("how", STANDS)
def test_the_longest_name_of_an_owner_is_one_that_step_functions_takes(how: str) -> None:
    """At a quarter of an hour between two looks the number has five digits after a hundred days."""
    longest = rows.settlement_key("k" * 64)

    assert (
        len(take_over(STALLED | STANDS[how] | longest | {"recoveries": 9_998}).execution) <= NAME_LENGTH_MAX
    )


# Of two that look at once


@pytest.mark.parametrize("how", STANDS)
def test_of_two_that_have_seen_the_same_row_one_takes_it_over(how: str) -> None:
    row = STALLED | STANDS[how]
    table = Table([row])

    table.write(take_over(row).write)
    with pytest.raises(StepFenced, match=r"^recover: the settlement has moved on$"):
        table.write(take_over(row).write)

    after = table.read(rows.settlement_key(SETTLEMENT.key))
    assert after is not None
    assert (after["recoveries"], after["owner"]) == (1, take_over(row).execution)


@pytest.mark.parametrize("how", STANDS)
def test_each_owner_has_a_number_and_so_a_name_of_its_own(how: str) -> None:
    table, names = Table([STALLED | STANDS[how]]), []

    for minutes in range(3):
        (row,) = table.rows()
        takeover = take_over(row, NOW + timedelta(minutes=minutes))
        table.write(takeover.write)
        names.append((takeover.execution, table.rows()[0]["recoveries"]))

    assert [number for _, number in names] == [1, 2, 3]
    assert len({name for name, _ in names}) == 3


@pytest.mark.parametrize("status", [None, *Status])
def test_whatever_stands_in_the_way_it_is_none_of_recoverys_business_any_more(status: Status | None) -> None:
    row = stalled(status=status) if status else None

    for write in (
        *(take_over(STALLED | stands).write for stands in STANDS.values()),
        recovery.set_aside(STALLED, NOW),
        recovery.postpone(STALLED, NOW, TERMS),
    ):
        refusal = write.refusal(row)
        assert type(refusal) is StepFenced
        assert str(refusal) == "recover: the settlement has moved on"


# When to look again

BACKOFF = [60, 120, 240, 480, *[900] * 17]
"""Seconds until the next look, by how often the settlement was taken over before."""


def looked_at_again(write: Any, row: Row) -> float:
    after = applied(write, row)
    name = "recover_at" if row["status"] == Status.LIMBO else "gsi1sk"
    return (datetime.fromisoformat(after[name]) - NOW).total_seconds()


@pytest.mark.parametrize("how", STANDS)
def test_the_next_look_is_twice_as_late_each_time_and_never_later_than_a_quarter_of_an_hour(how: str) -> None:
    for recoveries, seconds in enumerate(BACKOFF):
        row = STALLED | STANDS[how] | {"recoveries": recoveries}
        row |= {"deadline_at": FAR} if how == "processing" else {}

        assert looked_at_again(take_over(row).write, row) == seconds
        assert looked_at_again(recovery.postpone(row, NOW, TERMS), row | {"status": "any"}) == seconds


@pytest.mark.parametrize("recoveries", [0, 20])
@pytest.mark.parametrize(("left", "expected"), [(59_999, 59.999), (60_001, 60), (1, 0.001)])
def test_the_next_look_is_not_after_the_deadline_while_that_is_ahead(
    recoveries: int, left: int, expected: float
) -> None:
    deadline_at = rows.timestamp(NOW + timedelta(milliseconds=left))
    row = stalled(deadline_at=deadline_at, recoveries=recoveries)

    assert looked_at_again(take_over(row).write, row) == (left / 1000 if recoveries else expected)


def test_what_is_released_has_no_deadline_by_which_to_look_again() -> None:
    released = {Step.HOLD, Step.VERIFY, Step.RELEASE}
    for deadline_at in (AFTER, AT, BEFORE):
        row = stalled(deadline_at=deadline_at, steps=released)

        assert looked_at_again(take_over(row).write, row) == 60


def test_what_is_set_aside_is_out_of_the_way_for_a_quarter_of_an_hour_whatever_it_is() -> None:
    listed = {name: STALLED[name] for name in ("pk", "sk", "gsi1sk")}
    row = stalled(status="unheard of")

    assert applied(recovery.set_aside(listed, NOW), row) == row | {"gsi1sk": "2026-11-20T12:15:00.123Z"}


# What is due


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize(("gsi1sk", "arrived"), [(BEFORE, True), (AT, True), (AFTER, False), (None, False)])
def test_what_is_in_flight_is_due_by_the_row_itself_as_the_index_may_be_behind(
    status: Status, gsi1sk: str | None, arrived: bool
) -> None:
    row = stalled(status=status) | {"gsi1sk": gsi1sk}
    if gsi1sk is None:  # what is finished is listed no more
        del row["gsi1sk"]
        if status in (Status.PROCESSING, Status.COMPENSATING):
            return

    due = recovery.is_due(row, NOW)

    in_flight = status in (Status.PROCESSING, Status.COMPENSATING)
    assert due is ((in_flight and arrived) or status is Status.LIMBO)


@pytest.mark.parametrize("recover_at", [None, BEFORE, AT, AFTER])
def test_what_is_in_limbo_is_due_unless_it_was_taken_over_lately(recover_at: str | None) -> None:
    """The index has since when it is in LIMBO, so the time of the next look stands by itself."""
    row = stalled(status=Status.LIMBO, gsi1sk=MOVED) | ({"recover_at": recover_at} if recover_at else {})

    assert recovery.is_due(row, NOW) is (recover_at != AFTER)


@pytest.mark.parametrize(
    ("away", "seconds"), [(0, 0), (1, 0), (999, 0), (1_000, 1), (90_500, 90), (-1, 0), (-86_400_000, 0)]
)
def test_an_age_is_in_whole_seconds_and_never_below_zero_whosever_clock_is_behind(
    away: int, seconds: int
) -> None:
    then = rows.timestamp(NOW - away * MILLISECOND)

    age = recovery.seconds_since(then, NOW)

    assert (type(age), age) == (int, seconds)


def test_a_settlement_is_in_flight_since_its_claim_or_since_it_was_last_set_in_motion() -> None:
    assert recovery.in_flight_since(STALLED) == LISTED
    assert recovery.in_flight_since(STALLED | {"in_flight_since": AT}) == AT
