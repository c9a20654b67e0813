"""Recovery takes on what is past its deadline before its release, once for each time it was listed."""

from datetime import timedelta

import pytest

from settlement import recovery, rows
from settlement.errors import StepFenced
from settlement.rows import Row
from settlement.status import Status, Step
from tests.conftest import NOW
from tests.unit.conditions import admits
from tests.unit.every_row import AFTER, AT, BEFORE, MOVED, PREFIXES, settlement_row, verdicts
from tests.unit.table import Table, applied
from tests.unit.vectors import LISTED, OVERDUE, SETTLEMENT, TERMS

GIVE_UP = recovery.give_up(OVERDUE, NOW, TERMS)


def listed(deadline_at: str = AT, gsi1sk: str = LISTED, status: Status = Status.PROCESSING) -> Row:
    row = settlement_row(status, {Step.HOLD}, deadline_at, recoveries=0)
    return row | rows.in_flight_index(SETTLEMENT.key, gsi1sk)


@pytest.mark.parametrize("status", Status)
def test_only_what_is_in_process_overdue_unreleased_and_as_listed_is_taken_on(status: Status) -> None:
    for steps in PREFIXES:
        for deadline_at in (BEFORE, AT, AFTER):
            for gsi1sk in (LISTED, MOVED, None):
                for verified in verdicts(steps):
                    row = settlement_row(status, steps, deadline_at, **verified)
                    row |= {"gsi1sk": gsi1sk} if gsi1sk else {}
                    due = (
                        status is Status.PROCESSING
                        and Step.RELEASE not in steps
                        and deadline_at != AFTER
                        and gsi1sk == LISTED
                    )
                    assert admits(GIVE_UP, row) == due, row


def test_a_settlement_that_is_gone_is_not_made_again() -> None:
    assert not admits(GIVE_UP, None)


def test_it_is_counted_and_listed_again_for_later_should_the_start_fail() -> None:
    row = listed()

    after = applied(GIVE_UP, row)

    again_at = rows.timestamp(NOW + timedelta(seconds=TERMS.recover_after_seconds))
    assert after == row | {"recoveries": 1, "gsi1sk": again_at, "given_up_at": AT}


def test_of_two_that_read_the_same_listing_one_takes_it_on() -> None:
    table = Table([listed()])

    table.write(GIVE_UP)
    with pytest.raises(StepFenced):
        table.write(GIVE_UP)

    row = table.read(rows.settlement_key(SETTLEMENT.key))
    assert row is not None
    assert row["recoveries"] == 1


def test_each_time_has_a_number_of_its_own_and_so_has_what_it_starts() -> None:
    table, now, counted = Table([listed()]), NOW, []

    for _ in range(3):
        (row,) = table.rows()
        counted.append(table.write(recovery.give_up(row, now, TERMS))["recoveries"])
        now += timedelta(seconds=TERMS.recover_after_seconds)

    assert counted == [1, 2, 3]


@pytest.mark.parametrize("row", [None, listed(AFTER), listed(gsi1sk=MOVED), listed(status=Status.LIMBO)])
def test_whatever_stands_in_the_way_it_is_none_of_recoverys_business_any_more(row: Row | None) -> None:
    refusal = GIVE_UP.refusal(row)

    assert type(refusal) is StepFenced
    assert str(refusal) == "recover: the settlement has moved on, or has time left"
