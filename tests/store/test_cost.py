"""The cost of a settlement: five calls, no reads, and at most 26 write units."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from settlement.ledger import forward, reversal
from settlement.ledger.transaction import Write
from settlement.model.errors import InsufficientFunds
from settlement.model.orders import Resolution
from settlement.model.request import DEADLINE_SECONDS_MAX, NAME_LENGTH_MAX
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from settlement.model.status import REVERSIBLE, Step
from settlement.policy import compensation
from tests.conftest import NOW, Ledger
from tests.store.saga import (
    CLAIMED,
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
    state_of,
    step_transaction,
    up_to,
)

UNIT_BYTES = 1024
"""Up to this size, a row costs one write unit; twice that in a transaction."""


LONGEST_REQUEST = {
    "key": "k" * 64,
    "payer": "p" * 64,
    "payee": "q" * 64,
    "amount": 999_999_999_999_999,
    "fee": 999_999_999_000_000,
    "deadline_seconds": DEADLINE_SECONDS_MAX,
    "payer_name": "N" * NAME_LENGTH_MAX,
    "payee_name": "O" * NAME_LENGTH_MAX,
}
"""The longest content of a request whose names are in ASCII."""


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
        saga.commit(step)


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
        saga.commit(step, LATER)

    assert [operation for operation, _ in calls] == ["TransactWriteItems"]


def test_a_refused_step_is_one_call(saga: Saga) -> None:
    saga.start(payer=0)

    with watched(saga.ledger) as calls, pytest.raises(InsufficientFunds):
        saga.commit(Step.HOLD)

    assert [operation for operation, _ in calls] == ["TransactWriteItems"]


def test_a_claim_that_finds_the_key_taken_is_one_call(saga: Saga) -> None:
    saga.claim()

    with watched(saga.ledger) as calls:
        saga.claim(LATER, "execution-2")

    assert [operation for operation, _ in calls] == ["PutItem"]


def test_by_the_published_rule_a_happy_settlement_takes_26_write_units(
    settlement: Settlement, config: StageConfig
) -> None:
    claim = forward.claim(settlement, "execution-1", NOW, config)

    units = {step: units_of(step_transaction(step, settlement, config).writes, per_row=2) for step in Step}

    assert units_of([claim], per_row=1) == 2
    assert units == {Step.HOLD: 7, Step.VERIFY: 4, Step.RELEASE: 7, Step.FEE: 6}
    assert units_of([claim], per_row=1) + sum(units.values()) == 26


@pytest.mark.parametrize("ledger", ["dynamodb-local"], indirect=True)
def test_no_row_outgrows_one_unit_however_long_the_names_are(saga: Saga) -> None:
    longest = saga.asking(**LONGEST_REQUEST)
    longest.ledger.open("p" * 64, 999_999_999_999_999)
    longest.ledger.open("q" * 64, 0)
    longest.claim(owner="e" * 80)
    on_the_way = {"claimed": size(longest.row())}
    for step in Step:
        longest.commit(step)
        on_the_way[step] = size(longest.row())

    sizes = {row["sk"][-10:]: size(row) for row in longest.ledger.rows()}

    assert len(sizes) == 6
    sizes |= on_the_way
    assert max(sizes.values()) <= UNIT_BYTES, sizes


# A reversal


def fence(saga: Saga) -> None:
    """Begin as the first state does: a put that finds the key claimed, and the update."""
    saga.ledger.store.claim(reversal.tombstone(saga.settlement, "compensation-1", FAILURE, NOW))
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
            saga.reverse(step, LATER, committed)

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
            saga.reverse(step, LATER, committed)

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


def test_by_the_published_rule_a_reversal_takes_these_units(settlement: Settlement) -> None:
    def units(step: Step, committed: list[Step]) -> int:
        transaction = compensation.reverse_step(settlement, step, committed, [], NOW)
        assert transaction is not None
        return units_of(transaction.writes, per_row=2)

    claim = reversal.tombstone(settlement, "compensation-1", FAILURE, NOW)
    assert units_of([claim], per_row=1) == 1
    assert units_of([reversal.begin(settlement, FAILURE, owner=None, execution=REVERSER)], per_row=1) == 1
    assert units_of([reversal.assign_owner(settlement, REVERSER)], per_row=1) == 1
    assert {step: units(step, list(Step)) for step in REVERSIBLE} == {
        Step.FEE: 5,
        Step.RELEASE: 7,
        Step.HOLD: 8,
    }
    assert {step: units(step, []) for step in REVERSIBLE} == {Step.FEE: 4, Step.RELEASE: 4, Step.HOLD: 5}


def test_by_the_published_rule_limbo_and_the_way_out_take_these_units(
    settlement: Settlement, config: StageConfig
) -> None:
    row = CLAIMED | {"steps": set(up_to(Step.RELEASE)), "escrow": 48, "stuck_step": "compensate:release"}
    case = compensation.stuck_case(state_of(row))

    def units(resolution: Resolution) -> int:
        resolved = compensation.resolve(settlement, case, resolution, RESOLVER, NOW, config)
        return units_of(resolved.writes, per_row=2)

    assert units_of(compensation.reverse_on_order(settlement, ORDER, NOW, config).writes, per_row=2) == 6
    assert units_of(compensation.enter_limbo(settlement, case, STUCK, NOW).writes, per_row=2) == 8
    moved_nothing = compensation.case_of(state_of(row), Step.FEE)
    assert units_of(compensation.enter_limbo(settlement, moved_nothing, STUCK, NOW).writes, per_row=2) == 6
    assert {each.decision: units(each) for each in (RETRY, WRITE_OFF, COMPLETE)} == {
        "retry": 8,
        "write-off": 9,
        "complete": 8,
    }


def units_of(writes: Iterable[Write], per_row: int) -> int:
    """Return the units by AWS's published rule: `per_row`, and one for each gain or loss of the index."""
    return sum(per_row + changes_of_index(write) for write in writes)


def changes_of_index(write: Write) -> int:
    """Count the index's changes: a row that moves within it is lost in one place and gained in another.

    No update changes an attribute that is projected into the index. For an ordered reversal the index is
    taken to list the row already, as it lists every settlement in flight.
    """
    if write.action == "Put":
        return int("gsi1pk" in write.parameters["Item"])
    expression = write.parameters["UpdateExpression"]
    return 2 if "gsi1sk = " in expression else int("gsi1sk" in expression)


def size(value: Any) -> int:
    """Return the bytes of a row by DynamoDB's rule, at least: names and texts in UTF-8, numbers at most."""
    if isinstance(value, dict):
        return 3 + sum(len(name.encode()) + 1 + size(member) for name, member in value.items())
    if isinstance(value, set):
        return 3 + sum(1 + size(member) for member in value)
    return 21 if isinstance(value, int) else len(value.encode())
