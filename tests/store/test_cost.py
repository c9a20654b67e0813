"""What a settlement costs: five calls, no reads, and at most 26 write units."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from settlement import compensation, items, reversals
from settlement.errors import InsufficientFunds
from settlement.request import Settlement
from settlement.resolution import Resolution
from settlement.status import REVERSIBLE, Step
from settlement.terms import Terms
from settlement.writes import Write
from tests.conftest import NOW, Ledger
from tests.store.saga import (
    COMPLETE,
    FAILURE,
    LATER,
    ORDER,
    RESOLVER,
    RETRY,
    REVERSER,
    STUCK,
    WRITE_OFF,
    Saga,
    posting,
    up_to,
)

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


# A reversal


def fence(saga: Saga) -> None:
    """As the first state does it: a put that finds the key claimed, and the update."""
    saga.ledger.store.claim(reversals.refuse_unclaimed(saga.settlement, "compensation-1", FAILURE, NOW))
    saga.begin()


@pytest.mark.parametrize("last", [None, Step.VERIFY, Step.RELEASE])
def test_a_reversal_is_five_writes_and_no_read_however_far_the_settlement_came(
    saga: Saga, last: Step | None
) -> None:
    saga.reach(last)
    committed = up_to(last)

    with watched(saga.ledger) as calls:
        fence(saga)
        for step in REVERSIBLE:
            saga.undo(step, LATER, committed)

    assert [operation for operation, _ in calls] == ["PutItem", "UpdateItem", *["TransactWriteItems"] * 3]


@pytest.mark.parametrize("ledger", ["dynamodb-local"], indirect=True)
@pytest.mark.parametrize(("last", "units_max"), [(None, 11), (Step.VERIFY, 14), (Step.RELEASE, 19)])
def test_a_reversal_takes_no_more_write_units_than_the_rule_says(
    saga: Saga, last: Step | None, units_max: int
) -> None:
    saga.reach(last)
    committed = up_to(last)

    with watched(saga.ledger) as calls:
        fence(saga)
        for step in REVERSIBLE:
            saga.undo(step, LATER, committed)

    assert 0 < sum(units for _, units in calls) <= units_max


@pytest.mark.parametrize("resolution", [RETRY, WRITE_OFF, COMPLETE], ids=lambda each: each.decision)
def test_to_enter_limbo_to_wait_and_to_decide_are_one_write_each(saga: Saga, resolution: Resolution) -> None:
    saga.begun(Step.RELEASE)
    case = saga.case(Step.RELEASE)
    with watched(saga.ledger) as calls:
        saga.enter(case)
        saga.wait()

    with watched(saga.ledger) as decided:
        saga.resolve(resolution, case=case)

    assert [operation for operation, _ in calls + decided] == [
        "TransactWriteItems",
        "UpdateItem",
        "TransactWriteItems",
    ]


def test_by_the_published_rule_a_reversal_takes_what_it_takes(settlement: Settlement) -> None:
    def units(step: Step, committed: list[Step]) -> int:
        posting = compensation.undo(settlement, step, committed, [], NOW)
        assert posting is not None
        return units_of(posting.writes, per_row=2)

    claim = reversals.refuse_unclaimed(settlement, "compensation-1", FAILURE, NOW)
    assert units_of([claim], per_row=1) == 1
    assert units_of([reversals.begin(settlement, FAILURE, owner=None, execution=REVERSER)], per_row=1) == 1
    assert units_of([reversals.drive(settlement, REVERSER)], per_row=1) == 1
    assert {step: units(step, list(Step)) for step in REVERSIBLE} == {
        Step.FEE: 5,
        Step.RELEASE: 7,
        Step.HOLD: 8,
    }
    assert {step: units(step, []) for step in REVERSIBLE} == {Step.FEE: 4, Step.RELEASE: 4, Step.HOLD: 5}


def test_by_the_published_rule_limbo_and_the_way_out_take_what_they_take(
    settlement: Settlement, terms: Terms
) -> None:
    row = {"steps": set(up_to(Step.RELEASE)), "escrow": 48, "stuck_step": "compensate:release"}
    case = compensation.stuck(settlement, row)

    def units(resolution: Resolution) -> int:
        resolved = compensation.resolve(settlement, case, resolution, RESOLVER, NOW, terms)
        return units_of(resolved.writes, per_row=2)

    assert units_of(compensation.requested(settlement, ORDER, NOW, terms).writes, per_row=2) == 6
    assert units_of(compensation.enter_limbo(settlement, case, STUCK, NOW).writes, per_row=2) == 8
    moved_nothing = compensation.case_of(settlement, row, Step.FEE)
    assert units_of(compensation.enter_limbo(settlement, moved_nothing, STUCK, NOW).writes, per_row=2) == 6
    assert {each.decision: units(each) for each in (RETRY, WRITE_OFF, COMPLETE)} == {
        "retry": 8,
        "write-off": 9,
        "complete": 8,
    }


def units_of(writes: Iterable[Write], per_row: int) -> int:
    """AWS's published rule: `per_row` for each row, and one for each row that the index gains or loses."""
    return sum(per_row + changes_of_index(write) for write in writes)


def changes_of_index(write: Write) -> int:
    """A row that moves within the index is lost in one place and gained in another.

    The attributes that are projected into the index are never updated. The index of what is ordered to be
    reversed is taken to have had the row, as it has of what is in flight.
    """
    if write.action == "Put":
        return int("gsi1pk" in write.parameters["Item"])
    expression = write.parameters["UpdateExpression"]
    return 2 if "gsi1sk = " in expression else int("gsi1sk" in expression)


def size(value: Any) -> int:
    """Bytes of a row by DynamoDB's rule: names and texts in UTF-8, and never less than a number takes."""
    if isinstance(value, dict):
        return 3 + sum(len(name.encode()) + 1 + size(member) for name, member in value.items())
    if isinstance(value, set):
        return 3 + sum(1 + size(member) for member in value)
    return 21 if isinstance(value, int) else len(value.encode())
