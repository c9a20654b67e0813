"""RecoverStalled: a fault of one settlement or one partition does not delay the others."""

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from handlers import _dependencies
from settlement.ledger import keys
from settlement.model.errors import StoreUnavailable
from settlement.model.state import SettlementState
from tests.handlers.calls import KEY, REJECTED_BY_KYC, WIRE, Calls, run
from tests.handlers.conftest import Counted
from tests.handlers.stand_ins import Starts, execution, throttled

Later = Callable[..., None]

OTHER_KEYS = [f"order-2026-0002{number:02}" for number in range(12)]

AT_THE_HEAD = "2026-11-20T11:00:00.000Z"
"""A sort key before those of all due settlements."""


def claimed(calls: Calls, later: Later) -> None:
    """Claim a key in every index partition, and then let every deadline pass."""
    for key in OTHER_KEYS:
        calls("ClaimKey", WIRE | {"key": key})
    in_use = {row["gsi1pk"] for row in calls.ledger.rows() if keys.is_settlement(row)}
    assert len(in_use) == keys.IN_FLIGHT_SHARDS
    later(minutes=15)


def test_every_partition_of_the_index_is_looked_at(calls: Calls, starts: Starts, later: Later) -> None:
    claimed(calls, later)

    calls.recover()

    assert sorted(starts.names) == [f"{key}-compensate-1" for key in OTHER_KEYS]


POISON = [
    pytest.param({"currency": "XXX"}, id="a currency that the stage does not know"),
    pytest.param({"owner_epoch": "many"}, id="a text as number"),
    pytest.param({"owner_epoch": None}, id="null as number"),
    pytest.param({"fee": {"a": 1}}, id="a map as fee"),
    pytest.param({"deadline_at": 7}, id="a number as deadline"),
    pytest.param({"steps": None}, id="null as steps"),
    pytest.param({"status": "DONE"}, id="an unknown status"),
    pytest.param({"status": None}, id="null as status"),
]


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("poison", POISON)
def test_a_row_that_cannot_be_processed_is_deferred_and_the_others_are_recovered(
    calls: Calls, starts: Starts, later: Later, counted: Counted, poison: dict[str, Any]
) -> None:
    calls.after("HoldFunds")
    calls.alter(gsi1sk=AT_THE_HEAD, **poison)
    before = calls.row()
    claimed(calls, later)
    counted()

    calls.recover()

    metrics = counted()
    assert sorted(starts.names) == [f"{key}-compensate-1" for key in OTHER_KEYS]
    assert (metrics["RecoveredByCompensation"], metrics["NotRecovered"]) == (len(OTHER_KEYS), 1)
    assert calls.row() == before | {"gsi1sk": "2026-11-20T12:30:00.123Z"}


def test_a_settlement_with_a_malformed_age_is_recovered_too(
    calls: Calls, starts: Starts, later: Later, counted: Counted
) -> None:
    calls.after("HoldFunds")
    calls.alter(gsi1sk=AT_THE_HEAD, claimed_at="yesterday")
    claimed(calls, later)
    counted()

    calls.recover()

    metrics, recovered = counted(), len(OTHER_KEYS) + 1
    assert sorted(starts.names) == sorted(f"{key}-compensate-1" for key in [KEY, *OTHER_KEYS])
    assert (metrics["Recoveries"], metrics["NotRecovered"], metrics["OldestInFlightSeconds"]) == (
        recovered,
        1,
        900,
    )
    assert calls.row()["gsi1sk"] == "2026-11-20T12:16:00.123Z"


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(keys.settlement(KEY), id="a settlement without attributes"),
        pytest.param(keys.account("alice"), id="an account"),
        pytest.param({"pk": "no-kind", "sk": "SETTLEMENT"}, id="a key without a kind"),
        pytest.param(keys.entry(KEY, "hold"), id="a journal entry"),
    ],
)
def test_a_row_that_is_no_settlement_is_deferred(
    calls: Calls, starts: Starts, later: Later, counted: Counted, key: keys.Row
) -> None:
    listed = {**key, "gsi1pk": keys.in_flight_partition(0), "gsi1sk": AT_THE_HEAD}
    calls.ledger.put(listed)
    later(minutes=15)
    counted()

    calls.recover()

    assert (starts.asked, counted()) == (0, run(NotRecovered=1))
    assert calls.ledger.row(key) == listed | {"gsi1sk": "2026-11-20T12:30:00.123Z"}


def test_a_row_with_a_number_that_is_no_integer_is_deferred(
    calls: Calls, starts: Starts, later: Later, counted: Counted
) -> None:
    calls.after("HoldFunds")
    client, name = calls.ledger.client, calls.ledger.table_name
    key = {attribute: {"S": text} for attribute, text in keys.settlement(KEY).items()}
    broken = {":broken": {"N": "0.5"}}
    client.update_item(
        TableName=name, Key=key, UpdateExpression="SET fee = :broken", ExpressionAttributeValues=broken
    )
    later(minutes=15)
    counted()

    calls.recover()
    first = counted()
    calls.recover()

    assert (starts.asked, first, counted()) == (0, run(NotRecovered=1), run())
    item = client.get_item(TableName=name, Key=key, ConsistentRead=True)["Item"]
    assert item["gsi1sk"] == {"S": "2026-11-20T12:30:00.123Z"}


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("failure", [StoreUnavailable("DynamoDB: ReadTimeoutError"), ValueError("no")])
def test_a_row_is_not_deferred_because_the_table_is_unavailable_but_for_every_other_error(
    calls: Calls,
    *,
    starts: Starts,
    later: Later,
    counted: Counted,
    log: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
    failure: Exception,
) -> None:
    calls.after("HoldFunds")
    later(minutes=15)
    before = calls.row()
    real = _dependencies.store.read

    def fails(key: keys.Row) -> keys.Row:
        raise failure

    monkeypatch.setattr(_dependencies.store, "read", fails)
    counted()
    calls.recover()
    metrics = counted()
    monkeypatch.setattr(_dependencies.store, "read", real)

    postponed = {} if isinstance(failure, StoreUnavailable) else {"gsi1sk": "2026-11-20T12:30:00.123Z"}
    assert (calls.row(), metrics) == (before | postponed, run(NotRecovered=1))
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    wrong = [(line["what"], line["error"]) for line in lines if line["message"] == "not recovered"]
    assert wrong == [(KEY, type(failure).__name__)]


def test_a_row_that_cannot_be_deferred_does_not_delay_the_others(
    calls: Calls, starts: Starts, later: Later, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.after("HoldFunds")
    calls.alter(currency="XXX", gsi1sk=AT_THE_HEAD)
    claimed(calls, later)
    update = _dependencies.store.update

    def refuses(write: Any) -> SettlementState:
        if write.parameters["Key"] == keys.settlement(KEY):
            raise throttled("UpdateItem")
        return update(write)

    monkeypatch.setattr(_dependencies.store, "update", refuses)
    counted()

    calls.recover()

    assert (len(starts.names), counted()["NotRecovered"]) == (len(OTHER_KEYS), 1)


def test_a_start_that_is_refused_for_one_is_not_refused_for_the_others(
    calls: Calls, starts: Starts, later: Later, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed(calls, later)
    start, refused = starts.start_execution, f"{OTHER_KEYS[3]}-compensate-1"

    def start_execution(*, name: str, **more: Any) -> None:
        if name == refused:
            raise throttled("StartExecution")
        start(name=name, **more)

    monkeypatch.setattr(starts, "start_execution", start_execution)
    counted()

    calls.recover()

    recovered = len(OTHER_KEYS) - 1
    assert refused not in starts.names
    expected = run(NotRecovered=1, RecoveredByCompensation=recovered, Recoveries=recovered)
    assert counted() == expected | {"OldestInFlightSeconds": 900}


@pytest.mark.parametrize("poison", [{"waiting": {}}, {"owner_epoch": None}, {"gsi1sk": "0"}, {"owner": None}])
def test_a_case_of_limbo_that_cannot_be_processed_does_not_delay_the_others(
    calls: Calls, starts: Starts, later: Later, counted: Counted, poison: dict[str, Any]
) -> None:
    calls.fall("release")
    other = calls.row() | keys.settlement(OTHER_KEYS[0])
    calls.ledger.put(other)
    calls.alter(**poison)
    starts.running = {execution(f"{KEY}-compensate-1")}
    later(hours=1)
    counted()

    calls.recover()

    assert f"{OTHER_KEYS[0]}-compensate-1" in starts.names
    assert counted()["LimboOpen"] == 2


def test_refunded_resumed_and_alerted_settlements_have_metrics_of_their_own(
    calls: Calls, starts: Starts, later: Later, counted: Counted
) -> None:
    calls.fall("release")
    calls.ledger.open("carol", 10_000)
    reversing = WIRE | {"key": OTHER_KEYS[0], "payer": "carol"}
    calls("ClaimKey", reversing)
    calls.begin(settlement=reversing, error=REJECTED_BY_KYC)
    later(seconds=300)
    calls("ClaimKey", WIRE | {"key": OTHER_KEYS[1]})
    later(seconds=330)
    counted()

    calls.recover()

    assert sorted(starts.names) == sorted(
        [f"{KEY}-compensate-1", f"{OTHER_KEYS[0]}-compensate-1", f"{OTHER_KEYS[1]}-r1"]
    )
    actions = {"RecoveredBySettlement": 1, "RecoveredByCompensation": 1, "RecoveredByAlert": 1}
    ages = {"OldestInFlightSeconds": 330, "OldestLimboSeconds": 330}
    assert counted() == run(Recoveries=3, LimboOpen=1, **actions, **ages)


def test_a_partition_that_cannot_be_listed_does_not_delay_the_others(
    calls: Calls, starts: Starts, later: Later, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed(calls, later)
    counted()
    listed, first = _dependencies.store.listed, keys.in_flight_partition(0)
    waiting = {row["pk"] for row in calls.ledger.rows() if row.get("gsi1pk") == first}

    def throttles(partition: str, **bounds: Any) -> Iterator[keys.Row]:
        if partition == first:
            raise StoreUnavailable("DynamoDB: ThrottlingException")
        return listed(partition, **bounds)

    monkeypatch.setattr(_dependencies.store, "listed", throttles)

    calls.recover()

    assert len(starts.names) == len(OTHER_KEYS) - len(waiting)
    assert counted()["NotRecovered"] == 1
