"""What a settlement costs: five calls, no reads, and at most 26 write units."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from settlement import items
from settlement.errors import InsufficientFunds
from settlement.request import Settlement
from settlement.status import Step
from settlement.terms import Terms
from settlement.writes import Write
from tests.conftest import NOW, Ledger
from tests.store.saga import LATER, Saga, posting

UNIT_BYTES = 1024
"""Up to this size, a row costs one write unit; twice that in a transaction."""


@contextmanager
def watched(ledger: Ledger) -> Iterator[list[tuple[str, float]]]:
    """Collect each call that reaches DynamoDB, with the capacity units that its answer reports."""
    calls: list[tuple[str, float]] = []

    def answered(parsed: dict[str, Any], model: Any, **_: Any) -> None:
        consumed = parsed.get("ConsumedCapacity", [])
        tables = consumed if isinstance(consumed, list) else [consumed]
        calls.append((model.name, sum(table["CapacityUnits"] for table in tables)))

    ledger.client.meta.events.register("after-call.dynamodb", answered)
    yield calls
    ledger.client.meta.events.unregister("after-call.dynamodb", answered)


def settle(saga: Saga) -> None:
    saga.claim()
    for step in Step:
        saga.post(step)


def test_a_happy_settlement_is_five_writes_and_no_read(saga: Saga) -> None:
    saga.ledger.open("alice", 10_000)
    saga.ledger.open("bob", 500)

    with watched(saga.ledger) as calls:
        settle(saga)

    assert [operation for operation, _ in calls] == ["PutItem", *["TransactWriteItems"] * 4]


@pytest.mark.parametrize("ledger", ["dynamodb-local"], indirect=True)
def test_a_happy_settlement_takes_at_most_26_write_units(saga: Saga) -> None:
    saga.ledger.open("alice", 10_000)
    saga.ledger.open("bob", 500)

    with watched(saga.ledger) as calls:
        settle(saga)

    # DynamoDB Local counts the rows of a transaction that share a partition key once, so it reports 20.
    # What AWS publishes as its rule is asserted below, from the transactions themselves.
    assert 0 < sum(units for _, units in calls) <= 26


@pytest.mark.parametrize("step", Step)
def test_a_replayed_step_is_one_call(saga: Saga, step: Step) -> None:
    saga.after(step)

    with watched(saga.ledger) as calls:
        saga.post(step, LATER)

    assert [operation for operation, _ in calls] == ["TransactWriteItems"]


def test_a_refused_step_is_one_call(saga: Saga) -> None:
    saga.start(payer=0)

    with watched(saga.ledger) as calls, pytest.raises(InsufficientFunds):
        saga.post(Step.HOLD)

    assert [operation for operation, _ in calls] == ["TransactWriteItems"]


def test_a_claim_that_finds_the_key_taken_is_one_call(saga: Saga) -> None:
    saga.claim()

    with watched(saga.ledger) as calls:
        saga.claim(LATER, "execution-2")

    assert [operation for operation, _ in calls] == ["PutItem"]


def test_by_the_published_rule_a_happy_settlement_takes_26_write_units(
    settlement: Settlement, terms: Terms
) -> None:
    claim = items.claim(settlement, "execution-1", NOW, terms)

    units = {step: units_of(posting(step, settlement, terms).writes, per_row=2) for step in Step}

    assert units_of([claim], per_row=1) == 2
    assert units == {Step.HOLD: 7, Step.VERIFY: 4, Step.RELEASE: 7, Step.FEE: 6}
    assert units_of([claim], per_row=1) + sum(units.values()) == 26


@pytest.mark.parametrize("ledger", ["dynamodb-local"], indirect=True)
def test_no_row_outgrows_one_unit_however_long_the_names_are(saga: Saga) -> None:
    longest = saga.asking(
        key="k" * 64, payer="p" * 64, payee="q" * 64, amount=999_999_999_999_999, fee=999_999_999_000_000
    )
    longest.ledger.open("p" * 64, 999_999_999_999_999)
    longest.ledger.open("q" * 64, 0)
    longest.claim(owner="e" * 80)
    for step in Step:
        longest.post(step)

    sizes = {row["sk"][-10:]: size(row) for row in longest.ledger.rows()}

    assert len(sizes) == 6
    assert max(sizes.values()) <= UNIT_BYTES, sizes


def units_of(writes: Iterable[Write], per_row: int) -> int:
    """AWS's published rule: `per_row` for each row, and one for each change of the index."""
    return sum(per_row + touches_index(write) for write in writes)


def touches_index(write: Write) -> bool:
    """Whether a write changes a key of the index; the attributes projected into it are never updated."""
    return "gsi1pk" in write.parameters.get("Item", {}) or "gsi1pk" in write.parameters.get(
        "UpdateExpression", ""
    )


def size(value: Any) -> int:
    """Bytes of a row by DynamoDB's rule: names and texts in UTF-8, and never less than a number takes."""
    if isinstance(value, dict):
        return 3 + sum(len(name.encode()) + 1 + size(member) for name, member in value.items())
    if isinstance(value, set):
        return 3 + sum(1 + size(member) for member in value)
    return 21 if isinstance(value, int) else len(value.encode())
