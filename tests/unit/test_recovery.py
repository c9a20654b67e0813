"""Recovery decides by the state how a settlement continues, its next owner, and the time of the next look."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.ledger.transaction import Write
from settlement.model.errors import StepFenced
from settlement.model.request import parse_settlement
from settlement.model.state import MalformedRow, SettlementState
from settlement.model.status import Status, Step
from settlement.model.timestamps import seconds_since, timestamp
from settlement.policy import recovery
from settlement.policy.recovery import Action, Takeover
from tests.conftest import NOW
from tests.unit.conditions import admits
from tests.unit.every_row import AFTER, AT, BEFORE, MOVED, PREFIXES, settlement_row, verdicts
from tests.unit.table import Table, applied
from tests.unit.vectors import CONFIG, IN_HASTE, LISTED, PLACE, SETTLEMENT, SITUATIONS, STALLED

NAME_LENGTH_MAX = 80
"""Of an execution, by Step Functions."""

FAR = timestamp(NOW + timedelta(days=1))
MILLISECOND = timedelta(milliseconds=1)


def stalled(**changes: Any) -> Row:
    return STALLED | {"deadline_at": FAR} | changes


def take_over(row: Row, now: datetime = NOW) -> Takeover:
    takeover = recovery.take_over(SettlementState.from_row(row), now, CONFIG)
    assert takeover is not None
    return takeover


def postpone(row: Row) -> Write:
    return recovery.postpone(SettlementState.from_row(row), NOW, CONFIG)


# The takeover


@pytest.mark.parametrize("status", Status)
def test_a_takeover_follows_from_the_status_the_release_the_deadline_and_the_review(status: Status) -> None:
    for steps in PREFIXES:
        for deadline_at in (BEFORE, AT, AFTER):
            for verified in verdicts(steps):
                row = {**STALLED, **settlement_row(status, set(steps), deadline_at, **verified)}
                row = row if steps else {name: row[name] for name in row if name != "steps"}
                expected = {
                    Status.COMPENSATING: (Action.COMPENSATE, "compensate-1"),
                    Status.LIMBO: (Action.ALERT, "compensate-1"),
                }.get(status)
                if status is Status.PROCESSING:
                    if Step.RELEASE not in steps and deadline_at != AFTER:
                        expected = (Action.COMPENSATE, "compensate-1")
                    elif "review" not in verified:
                        expected = (Action.SETTLE, "r1")

                takeover = recovery.take_over(SettlementState.from_row(row), NOW, CONFIG)

                assert (takeover is None) == (expected is None), row
                if takeover and expected:
                    owner = takeover.write.parameters["ExpressionAttributeValues"][":owner"]
                    assert takeover.action is expected[0]
                    assert takeover.execution == owner == f"{SETTLEMENT.key}-{expected[1]}"
                    assert admits(takeover.write, row)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_an_execution_is_started_with_the_settlement_and_an_error_only_if_it_expired(situation: str) -> None:
    takeover = take_over(STALLED | SITUATIONS[situation])

    given = takeover.input if takeover.action is Action.SETTLE else takeover.input["settlement"]
    assert parse_settlement(given, CONFIG) == SETTLEMENT
    errors = {"processing.overdue": "the time to settle", "processing.review_over": "the review"}
    if situation in errors:
        assert takeover.input["error"]["Error"] == "DeadlineExceeded"
        assert takeover.input["error"]["Cause"].startswith(f"recover: {errors[situation]}")
    elif takeover.action is not Action.SETTLE:
        assert takeover.input.keys() == {"settlement"}


def test_a_resumed_settlement_keeps_the_deadline_that_its_request_named() -> None:
    row = stalled(**IN_HASTE.to_row(), **keys.settlement(IN_HASTE.key))

    assert take_over(row).input == IN_HASTE.to_wire(CONFIG)
    assert parse_settlement(take_over(row).input, CONFIG) == IN_HASTE


def test_a_deleted_settlement_is_not_created_again() -> None:
    for changes in SITUATIONS.values():
        assert not admits(take_over(STALLED | changes).write, None)
    assert not admits(recovery.defer_unprocessable(PLACE, NOW), None)
    assert not admits(postpone(STALLED), None)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_longest_name_of_an_owner_is_valid_for_step_functions(situation: str) -> None:
    """With a quarter of an hour between two looks the epoch has five digits after a hundred days."""
    longest = keys.settlement("k" * 64) | {"owner_epoch": 9_998}

    assert len(take_over(STALLED | SITUATIONS[situation] | longest).execution) <= NAME_LENGTH_MAX


# Two runs at once


@pytest.mark.parametrize("situation", SITUATIONS)
def test_of_two_runs_that_have_read_the_same_row_one_takes_it_over(situation: str) -> None:
    row = STALLED | SITUATIONS[situation]
    table = Table([row])

    table.write(take_over(row).write)
    with pytest.raises(StepFenced, match=r"^recover: the settlement has moved on$"):
        table.write(take_over(row).write)

    after = table.read(keys.settlement(SETTLEMENT.key))
    assert after is not None
    assert (after["owner_epoch"], after["owner"]) == (1, take_over(row).execution)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_each_owner_has_its_own_epoch_and_so_its_own_name(situation: str) -> None:
    table, names = Table([STALLED | SITUATIONS[situation]]), []

    for minutes in range(3):
        (row,) = table.rows()
        takeover = take_over(row, NOW + timedelta(minutes=minutes))
        table.write(takeover.write)
        names.append((takeover.execution, table.rows()[0]["owner_epoch"]))

    assert [epoch for _, epoch in names] == [1, 2, 3]
    assert len({name for name, _ in names}) == 3


@pytest.mark.parametrize("status", [None, *Status])
def test_every_refusal_means_that_the_settlement_has_moved_on(status: Status | None) -> None:
    state = SettlementState.from_row(stalled(status=status)) if status else None

    for write in (
        *(take_over(STALLED | changes).write for changes in SITUATIONS.values()),
        recovery.defer_unprocessable(PLACE, NOW),
        postpone(STALLED),
    ):
        refusal = write.on_failure(state)
        assert type(refusal) is StepFenced
        assert str(refusal) == "recover: the settlement has moved on"


# The next look

BACKOFF = [60, 120, 240, 480, *[900] * 17]
"""Seconds until the next look, by the number of takeovers before."""


def seconds_to_next_look(write: Write, row: Row) -> float:
    after = applied(write, row)
    name = "recover_at" if row["status"] == Status.LIMBO else "gsi1sk"
    return (datetime.fromisoformat(after[name]) - NOW).total_seconds()


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_next_look_is_twice_as_late_each_time_up_to_a_quarter_of_an_hour(situation: str) -> None:
    for owner_epoch, seconds in enumerate(BACKOFF):
        row = STALLED | SITUATIONS[situation] | {"owner_epoch": owner_epoch}
        row |= {"deadline_at": FAR} if situation == "processing" else {}

        assert seconds_to_next_look(take_over(row).write, row) == seconds
        assert seconds_to_next_look(postpone(row), row | {"status": "any"}) == seconds


@pytest.mark.parametrize("owner_epoch", [0, 20])
@pytest.mark.parametrize(("left", "expected"), [(59_999, 59.999), (60_001, 60), (1, 0.001)])
def test_the_next_look_is_not_after_a_deadline_that_lies_ahead(
    owner_epoch: int, left: int, expected: float
) -> None:
    deadline_at = timestamp(NOW + timedelta(milliseconds=left))
    row = stalled(deadline_at=deadline_at, owner_epoch=owner_epoch)

    assert seconds_to_next_look(take_over(row).write, row) == (left / 1000 if owner_epoch else expected)


def test_the_deadline_does_not_bring_the_next_look_at_a_released_settlement_forward() -> None:
    released = {Step.HOLD, Step.VERIFY, Step.RELEASE}
    for deadline_at in (AFTER, AT, BEFORE):
        row = stalled(deadline_at=deadline_at, steps=released)

        assert seconds_to_next_look(take_over(row).write, row) == 60


def test_a_row_that_cannot_be_processed_is_deferred_for_a_quarter_of_an_hour() -> None:
    row = stalled(status="unknown")

    assert applied(recovery.defer_unprocessable(PLACE, NOW), row) == row | {
        "gsi1sk": "2026-11-20T12:15:00.123Z"
    }


def test_a_settlement_whose_execution_gave_no_answer_is_deferred_for_the_given_time() -> None:
    after = applied(recovery.defer_unprocessable(PLACE, NOW, 60), STALLED)

    assert after == STALLED | {"gsi1sk": "2026-11-20T12:01:00.123Z"}


# Due settlements


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize(("gsi1sk", "arrived"), [(BEFORE, True), (AT, True), (AFTER, False), (None, False)])
def test_a_settlement_in_flight_is_due_by_its_row_as_the_index_may_lag(
    status: Status, gsi1sk: str | None, arrived: bool
) -> None:
    row = stalled(status=status) | {"gsi1sk": gsi1sk}
    if gsi1sk is None:  # a finished settlement is in no index
        del row["gsi1sk"]
        if status in (Status.PROCESSING, Status.COMPENSATING):
            return

    due = recovery.is_due(SettlementState.from_row(row), NOW)

    in_flight = status in (Status.PROCESSING, Status.COMPENSATING)
    assert due is ((in_flight and arrived) or status is Status.LIMBO)


@pytest.mark.parametrize("recover_at", [None, BEFORE, AT, AFTER])
def test_a_settlement_in_limbo_is_due_unless_it_was_taken_over_lately(recover_at: str | None) -> None:
    """Its sort key in the index is the start of the case, so the time of the next look is an attribute."""
    row = stalled(status=Status.LIMBO, gsi1sk=MOVED) | ({"recover_at": recover_at} if recover_at else {})

    assert recovery.is_due(SettlementState.from_row(row), NOW) is (recover_at != AFTER)


@pytest.mark.parametrize(
    ("away", "seconds"), [(0, 0), (1, 0), (999, 0), (1_000, 1), (90_500, 90), (-1, 0), (-86_400_000, 0)]
)
def test_an_age_is_in_whole_seconds_and_never_below_zero_even_if_a_clock_lags(
    away: int, seconds: int
) -> None:
    then = timestamp(NOW - away * MILLISECOND)

    age = seconds_since(then, NOW)

    assert (type(age), age) == (int, seconds)


def test_a_settlement_is_in_flight_since_its_claim_or_since_it_was_last_set_in_motion() -> None:
    assert recovery.in_flight_since(SettlementState.from_row(STALLED)) == LISTED
    assert recovery.in_flight_since(SettlementState.from_row(STALLED | {"in_flight_since": AT})) == AT


@pytest.mark.parametrize("status", [Status.PROCESSING, Status.COMPENSATING, Status.LIMBO])
def test_a_settlement_without_a_place_in_the_index_is_not_taken_over(status: Status) -> None:
    unlisted = replace(SettlementState.from_row(stalled(status=status)), listed_at=None)

    with pytest.raises(MalformedRow, match=r"has no place in the index$"):
        recovery.take_over(unlisted, NOW, CONFIG)
