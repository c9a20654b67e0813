"""The owners of a reversal: when an execution may begin one, and which execution owns it then."""

from typing import Any

import pytest

from settlement.ledger import forward, reversal
from settlement.ledger.transaction import AlreadyApplied, Write
from settlement.model.errors import IdempotencyConflict, StepFenced
from settlement.model.status import Status, Step
from settlement.model.timestamps import timestamp
from tests.conftest import NOW
from tests.unit.conditions import admits
from tests.unit.every_row import AFTER, rows_met_by, settlement_row
from tests.unit.states import found
from tests.unit.table import Table, applied
from tests.unit.vectors import CONFIG, EXECUTION, FAILURE, ORDERS, REVERSER, SETTLEMENT

OTHER = f"{SETTLEMENT.key}-compensate-1"
"""An execution that resumes the reversal after the one that has begun it."""


# Both are built in each test: at import, mutation testing would not reach their builders.


@pytest.fixture
def owned() -> Write:
    return reversal.begin(SETTLEMENT, FAILURE, owner=EXECUTION, execution=REVERSER)


@pytest.fixture
def assign() -> Write:
    return reversal.assign_owner(SETTLEMENT, OTHER)


# What an execution may begin to reverse


def test_an_execution_reverses_its_own_settlement_if_not_in_review_and_not_released(owned: Write) -> None:
    """Any other row is left as it is: its owner, or the end of its review, continues it."""
    admitted = 0
    for row in rows_met_by(owned):
        same = row["request_hash"] == SETTLEMENT.request_hash
        own = row["owner"] == EXECUTION and "review" not in row and Step.RELEASE not in row.get("steps", ())
        expected = same and row["status"] is Status.PROCESSING and own
        assert admits(owned, row) == expected, row
        admitted += expected
        refusal = owned.on_failure(found(row))
        if same:
            assert isinstance(refusal, AlreadyApplied)
            assert refusal.found == found(row)
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
        pytest.param(1, {"owner": "another"}, False, id="under another owner"),
        pytest.param(1, {"expired_at": AFTER}, True, id="expired"),
    ],
)
def test_a_reversal_without_an_owner_always_begins_and_one_with_an_owner_only_on_its_own_settlement(
    owned: Write, committed: int, row: dict[str, Any], begins: bool
) -> None:
    """A released settlement only runs forward; an order and recovery know that no execution runs it."""
    steps = set(ALL_BUT_FEE[:committed])
    met = settlement_row(Status.PROCESSING, steps, AFTER, **({"owner": EXECUTION} | row))

    assert admits(owned, met) is begins
    assert admits(reversal.begin(SETTLEMENT, FAILURE, owner=None, execution=REVERSER), met)


@pytest.mark.parametrize("owner", [None, "me", "me-decided"])
def test_a_failure_reverses_no_settlement_that_another_execution_owns(owner: str | None) -> None:
    """A webhook's verdict makes another execution the owner; a call without an owner is for every owner."""
    begin = reversal.begin(SETTLEMENT, FAILURE, owner=owner, execution=REVERSER)
    row = settlement_row(Status.PROCESSING, {Step.HOLD}, AFTER, owner="me-decided")

    assert admits(begin, row) == (owner != "me")
    refusal = begin.on_failure(found(row))
    assert isinstance(refusal, AlreadyApplied)
    assert refusal.found == found(row)


# The owner after it


def test_the_execution_that_begins_a_reversal_becomes_its_owner() -> None:
    """Recovery asks whether the owner runs: with the execution before as the owner it would start another."""
    for owner in (None, "me"):
        begin = reversal.begin(SETTLEMENT, FAILURE, owner=owner, execution=REVERSER)
        row = settlement_row(Status.PROCESSING, {Step.HOLD}, AFTER, owner="me", owner_epoch=3)

        after = applied(begin, row)

        assert (after["owner"], after["owner_epoch"]) == (REVERSER, 3)


def test_a_new_owner_of_a_compensation_changes_nothing_else(assign: Write) -> None:
    assigned = 0
    for row in rows_met_by(assign):
        same = row["request_hash"] == SETTLEMENT.request_hash
        assert admits(assign, row) == (same and row["status"] is Status.COMPENSATING), row
        if admits(assign, row):
            assert applied(assign, row) == row | {"owner": OTHER}
            assigned += 1
            continue
        refusal = assign.on_failure(found(row))
        if same:
            assert isinstance(refusal, AlreadyApplied)
            assert refusal.found == found(row)
        else:
            assert type(refusal) is IdempotencyConflict
    assert assigned


def test_an_unclaimed_key_gets_no_owner(assign: Write) -> None:
    refusal = assign.on_failure(None)

    assert not admits(assign, None)
    assert type(refusal) is StepFenced
    assert str(refusal) == f"compensate: the key {SETTLEMENT.key} was never claimed"


@pytest.mark.parametrize("expected_status", ORDERS)
def test_a_reversal_on_order_keeps_its_owner_until_an_execution_resumes_it(
    assign: Write, expected_status: Status
) -> None:
    table = Table([settlement_row(expected_status, set(Step), AFTER, owner="me", owner_epoch=3)])

    begun = table.write(reversal.begin_on_order(SETTLEMENT, expected_status, FAILURE, NOW, CONFIG))
    assigned = table.write(assign)

    assert (begun["owner"], begun["in_flight_since"]) == ("me", timestamp(NOW))
    assert (assigned["owner"], assigned["owner_epoch"]) == (OTHER, 3)
    assert assigned == begun | {"owner": OTHER}


def test_the_former_owner_finds_the_reversal_under_its_new_owner(owned: Write, assign: Write) -> None:
    table = Table([forward.claim(SETTLEMENT, EXECUTION, NOW, CONFIG).parameters["Item"]])
    table.write(owned)

    assigned = table.write(assign)

    assert table.write(owned) == assigned
    assert (assigned["status"], assigned["owner"]) == (Status.COMPENSATING, OTHER)
