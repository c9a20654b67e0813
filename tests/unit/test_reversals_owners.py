"""Whom a reversal belongs to: what an execution may begin that others drive too, and who drives it then."""

from typing import Any

import pytest

from settlement import items, reversals, rows
from settlement.errors import IdempotencyConflict
from settlement.status import Status, Step
from settlement.writes import Standing, Write
from tests.conftest import NOW
from tests.unit.conditions import admits
from tests.unit.every_row import AFTER, rows_met_by, settlement_row
from tests.unit.table import Table, applied
from tests.unit.vectors import EXECUTION, FAILURE, ORDERS, REVERSER, SETTLEMENT, TERMS

OTHER = f"{SETTLEMENT.key}-compensate-1"
"""An execution that drives the reversal after the one that has begun it."""


# Both are built in each test and not at import, where mutation testing would no longer reach their builders.


@pytest.fixture
def owned() -> Write:
    return reversals.begin(SETTLEMENT, FAILURE, owner=EXECUTION, execution=REVERSER)


@pytest.fixture
def drive() -> Write:
    return reversals.drive(SETTLEMENT, OTHER)


# What an execution may begin to reverse


def test_an_execution_reverses_what_it_drives_itself_that_is_in_no_review_and_not_released(
    owned: Write,
) -> None:
    """Any other row stands: whoever drives it, or waits for its review, is to go on with it."""
    admitted = 0
    for row in rows_met_by(owned):
        same = row["request_hash"] == SETTLEMENT.request_hash
        own = row["owner"] == EXECUTION and "review" not in row and Step.RELEASE not in row.get("steps", ())
        expected = same and row["status"] is Status.PROCESSING and own
        assert admits(owned, row) == expected, row
        admitted += expected
        refusal = owned.refusal(row)
        if same:
            assert isinstance(refusal, Standing)
            assert refusal.row == row
        else:
            assert type(refusal) is IdempotencyConflict
    assert admitted


ALL_BUT_FEE = [Step.HOLD, Step.VERIFY, Step.RELEASE]


@pytest.mark.parametrize(
    ("committed", "row", "begins"),
    [
        pytest.param(0, {}, True, id="nothing held"),
        pytest.param(1, {}, True, id="held"),
        pytest.param(2, {}, True, id="verified"),
        pytest.param(3, {}, False, id="released"),
        pytest.param(1, {"review": "ref-1"}, False, id="in review"),
        pytest.param(1, {"owner": "another"}, False, id="another's"),
        pytest.param(1, {"given_up_at": AFTER}, True, id="given up"),
    ],
)
def test_who_names_no_owner_reverses_all_of_it_and_an_owner_only_what_is_its_own_to_reverse(
    owned: Write, committed: int, row: dict[str, Any], begins: bool
) -> None:
    """After the release there is no way but on; an order or recovery says itself that nobody drives it."""
    steps = set(ALL_BUT_FEE[:committed])
    found = settlement_row(Status.PROCESSING, steps, AFTER, **({"owner": EXECUTION} | row))

    assert admits(owned, found) is begins
    assert admits(reversals.begin(SETTLEMENT, FAILURE, owner=None, execution=REVERSER), found)


@pytest.mark.parametrize("owner", [None, "me", "me-decided"])
def test_a_failure_reverses_nothing_that_was_given_to_another_execution(owner: str | None) -> None:
    """A webhook's verdict makes another execution the owner; who names none asks whoever drives it."""
    begin = reversals.begin(SETTLEMENT, FAILURE, owner=owner, execution=REVERSER)
    row = settlement_row(Status.PROCESSING, {Step.HOLD}, AFTER, owner="me-decided")

    assert admits(begin, row) == (owner != "me")
    refusal = begin.refusal(row)
    assert isinstance(refusal, Standing)
    assert refusal.row == row


# Who drives it then


def test_whoever_begins_to_reverse_is_the_owner_from_then_on_whoever_asked_for_it() -> None:
    """Recovery looks whether the owner runs: were it still the execution before, it would start another."""
    for owner in (None, "me"):
        begin = reversals.begin(SETTLEMENT, FAILURE, owner=owner, execution=REVERSER)
        row = settlement_row(Status.PROCESSING, {Step.HOLD}, AFTER, owner="me", recoveries=3)

        after = applied(begin, row)

        assert (after["owner"], after["recoveries"]) == (REVERSER, 3)


def test_whoever_comes_to_drive_a_reversal_owns_it_and_changes_nothing_else(drive: Write) -> None:
    driven = 0
    for row in rows_met_by(drive):
        same = row["request_hash"] == SETTLEMENT.request_hash
        assert admits(drive, row) == (same and row["status"] is Status.COMPENSATING), row
        if admits(drive, row):
            assert applied(drive, row) == row | {"owner": OTHER}
            driven += 1
            continue
        refusal = drive.refusal(row)
        if same:
            assert isinstance(refusal, Standing)
            assert refusal.row == row
        else:
            assert type(refusal) is IdempotencyConflict
    assert driven


def test_a_key_that_was_never_claimed_is_not_driven_into_being(drive: Write) -> None:
    """The row that stands is none at all, and whoever drives it is to say so."""
    refusal = drive.refusal(None)

    assert not admits(drive, None)
    assert isinstance(refusal, Standing)
    assert not refusal.row


@pytest.mark.parametrize("seen", ORDERS)
def test_on_a_persons_order_it_is_in_flight_and_belongs_to_whoever_comes_to_drive_it(
    drive: Write, seen: Status
) -> None:
    table = Table([settlement_row(seen, set(Step), AFTER, owner="me", recoveries=3)])

    reopened = table.write(reversals.reopen(SETTLEMENT, seen, FAILURE, NOW, TERMS))
    driven = table.write(drive)

    assert (reopened["owner"], reopened["in_flight_since"]) == ("me", rows.timestamp(NOW))
    assert (driven["owner"], driven["recoveries"]) == (OTHER, 3)
    assert driven == reopened | {"owner": OTHER}


def test_the_claim_of_the_owner_before_is_a_replay_once_another_drives_the_reversal(
    owned: Write, drive: Write
) -> None:
    table = Table([items.claim(SETTLEMENT, EXECUTION, NOW, TERMS).parameters["Item"]])
    table.write(owned)

    driven = table.write(drive)

    assert table.write(owned) == driven
    assert (driven["status"], driven["owner"]) == (Status.COMPENSATING, OTHER)
