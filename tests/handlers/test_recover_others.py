"""RecoverStalled: neither a fault of one settlement or partition nor a lack of time delays the others."""

import io
import json
from collections.abc import Callable, Iterator
from itertools import chain, islice, repeat
from typing import Any

import pytest

from handlers import _dependencies
from handlers.recover_stalled import SHARE_MAX
from settlement.ledger import keys
from settlement.model.errors import StoreUnavailable
from tests.handlers.conftest import Counted, Later
from tests.world.constants import KEY, REJECTED_BY_KYC, WIRE
from tests.world.functions import Calls, run
from tests.world.services import throttled
from tests.world.step_functions import StepFunctions

OTHER_KEYS = [f"order-2026-0002{number:02}" for number in range(12)]
"""Keys in every partition of the index."""

SHARDS = keys.IN_FLIGHT_SHARDS
AT_THE_HEAD = "2026-11-20T11:00:00.000Z"
"""A sort key before those of all due settlements."""

DEFERRED = {"gsi1sk": "2026-11-20T12:30:00.123Z"}
UNAVAILABLE = StoreUnavailable("DynamoDB: ThrottlingException")
Listing = Callable[..., Iterator[keys.Row]]


@pytest.fixture
def listing(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Replace the store's listing by one that is called with the real one, the partition and its bounds."""

    def replace(fake: Callable[..., Any]) -> None:
        real = _dependencies.store.listed
        monkeypatch.setattr(
            _dependencies.store, "listed", lambda partition, **bounds: fake(real, partition, **bounds)
        )

    return replace


def claimed(calls: Calls, later: Later) -> None:
    """Claim a key in every partition of the index, and let every deadline pass."""
    for key in OTHER_KEYS:
        calls("ClaimKey", WIRE | {"key": key})
    in_use = {row["gsi1pk"] for row in calls.ledger.rows() if keys.is_settlement(row)}
    assert len(in_use) == SHARDS
    later(minutes=15)


def recovered(step_functions: StepFunctions) -> bool:
    return {f"{key}-compensate-1" for key in OTHER_KEYS} <= set(step_functions.names)


def copies(calls: Calls, number: int, **attributes: Any) -> None:
    """Put this many copies of the settlement into its partition of the index."""
    row = calls.row()
    for copy in range(number):
        calls.ledger.put(row | keys.settlement(f"order-2026-1{copy:05}") | attributes)


def not_recovered(log: io.StringIO) -> list[tuple[str, str]]:
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    return [(line["what"], line["error"]) for line in lines if line["message"] == "not recovered"]


# Rows that cannot be processed


@pytest.mark.parametrize(
    ("poison", "error"),
    [
        ({"currency": "XXX"}, "KeyError"),
        ({"owner_epoch": "many"}, "MalformedRow"),
        ({"deadline_at": 7}, "MalformedRow"),
        ({"status": "DONE"}, "MalformedRow"),
        ({"steps": None}, "MalformedRow"),
    ],
)
def test_a_row_that_cannot_be_processed_is_deferred_and_the_others_are_recovered(
    calls: Calls,
    *,
    step_functions: StepFunctions,
    later: Later,
    counted: Counted,
    log: io.StringIO,
    poison: dict[str, Any],
    error: str,
) -> None:
    calls.after("HoldFunds")
    calls.alter(gsi1sk=AT_THE_HEAD, **poison)
    before = calls.row()
    claimed(calls, later)
    counted()

    calls.recover()

    number = len(OTHER_KEYS)
    assert recovered(step_functions)
    metrics = run(RecoveredByCompensation=number, Recoveries=number, NotRecovered=1)
    assert counted() == metrics | {"OldestInFlightSeconds": 900}
    assert calls.row() == before | DEFERRED
    assert not_recovered(log) == [(KEY, error)]


def test_a_settlement_with_a_malformed_age_is_recovered_too(
    calls: Calls, step_functions: StepFunctions, later: Later, counted: Counted
) -> None:
    calls.after("HoldFunds")
    calls.alter(gsi1sk=AT_THE_HEAD, claimed_at="yesterday")
    claimed(calls, later)
    counted()

    calls.recover()

    metrics = counted()
    assert recovered(step_functions)
    assert f"{KEY}-compensate-1" in step_functions.names
    assert (metrics["Recoveries"], metrics["NotRecovered"]) == (len(OTHER_KEYS) + 1, 1)
    assert (metrics["OldestInFlightSeconds"], calls.row()["gsi1sk"]) == (900, "2026-11-20T12:16:00.123Z")


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
    calls: Calls, step_functions: StepFunctions, later: Later, counted: Counted, key: keys.Row
) -> None:
    listed = {**key, "gsi1pk": keys.in_flight_partition(0), "gsi1sk": AT_THE_HEAD}
    calls.ledger.put(listed)
    later(minutes=15)
    counted()

    calls.recover()

    assert (step_functions.called, counted()) == ([], run(NotRecovered=1))
    assert calls.ledger.row(key) == listed | DEFERRED


def test_a_row_with_a_number_that_is_no_integer_is_deferred(
    calls: Calls, step_functions: StepFunctions, later: Later, counted: Counted
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

    assert (step_functions.called, counted()) == ([], run(NotRecovered=1))
    item = client.get_item(TableName=name, Key=key, ConsistentRead=True)["Item"]
    assert item["gsi1sk"] == {"S": DEFERRED["gsi1sk"]}


@pytest.mark.parametrize(("failure", "deferred"), [(UNAVAILABLE, {}), (ValueError("no"), DEFERRED)])
def test_a_row_is_not_deferred_because_the_table_is_unavailable(
    calls: Calls,
    *,
    later: Later,
    counted: Counted,
    log: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
    failure: Exception,
    deferred: dict[str, str],
) -> None:
    calls.after("HoldFunds")
    later(minutes=15)
    before = calls.row()

    def fails(key: keys.Row) -> keys.Row:
        raise failure

    counted()
    with monkeypatch.context() as broken:
        broken.setattr(_dependencies.store, "read", fails)
        calls.recover()

    assert (calls.row(), counted()) == (before | deferred, run(NotRecovered=1))
    assert not_recovered(log) == [(KEY, type(failure).__name__)]


def test_a_row_that_cannot_be_deferred_does_not_delay_the_others(
    calls: Calls,
    step_functions: StepFunctions,
    later: Later,
    counted: Counted,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls.after("HoldFunds")
    calls.alter(currency="XXX", gsi1sk=AT_THE_HEAD)
    claimed(calls, later)
    update = _dependencies.store.update

    def refuses(write: Any) -> Any:
        if write.parameters["Key"] == keys.settlement(KEY):
            raise throttled("UpdateItem")
        return update(write)

    monkeypatch.setattr(_dependencies.store, "update", refuses)
    counted()

    calls.recover()

    assert (recovered(step_functions), counted()["NotRecovered"]) == (True, 1)


def test_a_start_that_is_refused_for_one_is_not_refused_for_the_others(
    calls: Calls, step_functions: StepFunctions, later: Later, counted: Counted
) -> None:
    claimed(calls, later)
    failing = chain([True], repeat(False))

    def refuses(operation: str) -> None:
        if next(failing):
            raise throttled("StartExecution")

    step_functions.before = refuses
    counted()

    calls.recover()

    number = len(OTHER_KEYS) - 1
    assert len(step_functions.names) == number
    expected = run(NotRecovered=1, RecoveredByCompensation=number, Recoveries=number)
    assert counted() == expected | {"OldestInFlightSeconds": 900}


@pytest.mark.parametrize("poison", [{"waiting": {}}, {"owner_epoch": None}, {"gsi1sk": "0"}, {"owner": None}])
def test_a_case_of_limbo_that_cannot_be_processed_does_not_delay_the_others(
    calls: Calls, step_functions: StepFunctions, later: Later, counted: Counted, poison: dict[str, Any]
) -> None:
    calls.fall()
    calls.ledger.put(calls.row() | keys.settlement(OTHER_KEYS[0]))
    calls.alter(**poison)
    later(hours=1)
    counted()

    calls.recover()

    assert f"{OTHER_KEYS[0]}-compensate-1" in step_functions.names
    assert counted()["LimboOpen"] == 2


def test_resumed_reversed_and_alerted_settlements_have_metrics_of_their_own(
    calls: Calls, step_functions: StepFunctions, later: Later, counted: Counted, log: io.StringIO
) -> None:
    calls.fall()
    reversing = WIRE | {"key": OTHER_KEYS[0], "payer": "carol"}
    calls("ClaimKey", reversing)
    calls.begin(settlement=reversing, error=REJECTED_BY_KYC)
    later(seconds=300)
    calls("ClaimKey", WIRE | {"key": OTHER_KEYS[1]})
    later(seconds=330)
    counted()

    calls.recover()

    names = [f"{KEY}-compensate-1", f"{OTHER_KEYS[0]}-compensate-1", f"{OTHER_KEYS[1]}-r1"]
    assert sorted(step_functions.names) == names
    actions = {"RecoveredBySettlement": 1, "RecoveredByCompensation": 1, "RecoveredByAlert": 1}
    ages = {"OldestInFlightSeconds": 330, "OldestLimboSeconds": 330}
    assert counted() == run(Recoveries=3, LimboOpen=1, **actions, **ages)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    told = [
        (line["settlement"], line["execution_started"]) for line in lines if line["message"] == "recovered"
    ]
    assert sorted(told) == list(zip([KEY, *OTHER_KEYS[:2]], names, strict=True))


# Partitions


@pytest.mark.parametrize(("minute", "first"), [(0, 0), (7, 7), (8, 0), (30, 6), (59, 3), (61, 1)])
def test_every_partition_is_looked_at_once_and_each_minute_another_one_first(
    calls: Calls, later: Later, listing: Callable[[Listing], None], minute: int, first: int
) -> None:
    asked: list[tuple[str, str, int]] = []

    def noted(real: Listing, partition: str, *, up_to: str, limit: int) -> Iterator[keys.Row]:
        asked.append((partition, up_to, limit))
        return real(partition, up_to=up_to, limit=limit)

    listing(noted)
    later(minutes=minute, seconds=59.8)

    calls.recover()

    now = f"2026-11-20T{12 + minute // 60}:{minute % 60:02}:59.923Z"
    in_turn = [keys.in_flight_partition((first + turn) % SHARDS) for turn in range(SHARDS)]
    assert asked == [(keys.LIMBO, "9999", 10_000), *((shard, now, SHARE_MAX) for shard in in_turn)]


def test_a_partition_that_cannot_be_listed_does_not_delay_the_others(
    calls: Calls,
    *,
    step_functions: StepFunctions,
    later: Later,
    counted: Counted,
    log: io.StringIO,
    listing: Callable[[Listing], None],
) -> None:
    claimed(calls, later)
    broken = [keys.LIMBO, keys.in_flight_partition(3)]
    waiting = {row["pk"] for row in calls.ledger.rows() if row.get("gsi1pk") == broken[1]}
    counted()

    def throttles(real: Listing, partition: str, **bounds: Any) -> Iterator[keys.Row]:
        if partition in broken:
            raise UNAVAILABLE
        return real(partition, **bounds)

    listing(throttles)

    calls.recover()

    number = len(OTHER_KEYS) - len(waiting)
    metrics = run(NotRecovered=2, RecoveredByCompensation=number, Recoveries=number)
    del metrics["LimboOpen"], metrics["OldestLimboSeconds"]  # unknown, and a 0 would wrongly end an alarm
    assert counted() == metrics | {"OldestInFlightSeconds": 900}
    assert not_recovered(log) == [(partition, "StoreUnavailable") for partition in broken]


def test_the_settlements_listed_before_a_page_that_fails_are_recovered(
    calls: Calls,
    step_functions: StepFunctions,
    later: Later,
    counted: Counted,
    listing: Callable[[Listing], None],
) -> None:
    claimed(calls, later)
    counted()

    def one_and_no_more(real: Listing, partition: str, **bounds: Any) -> Iterator[keys.Row]:
        yield from islice(real(partition, **bounds), 1)
        raise UNAVAILABLE

    listing(one_and_no_more)

    calls.recover()

    assert (len(step_functions.names), counted()["NotRecovered"]) == (SHARDS, SHARDS + 1)


# A run's share, and its time


def test_of_one_partition_a_run_looks_at_a_share_and_the_next_one_at_the_rest(
    calls: Calls, step_functions: StepFunctions, later: Later, counted: Counted
) -> None:
    calls("ClaimKey")
    copies(calls, SHARE_MAX + 2)
    later(seconds=30)

    for number in (SHARE_MAX, 3):
        counted()
        calls.recover()
        assert counted() == run(Recoveries=number, RecoveredBySettlement=number, OldestInFlightSeconds=30)

    assert len(set(step_functions.names)) == SHARE_MAX + 3


def test_rows_at_the_head_that_cannot_be_recovered_do_not_block_the_rest(
    calls: Calls, step_functions: StepFunctions, later: Later, counted: Counted
) -> None:
    calls("ClaimKey")
    copies(calls, SHARE_MAX, gsi1sk=AT_THE_HEAD, currency="XXX")
    later(seconds=30)
    counted()

    calls.recover()
    assert (step_functions.names, counted()["NotRecovered"]) == ([], SHARE_MAX)
    calls.recover()

    assert (step_functions.names, counted().get("NotRecovered")) == ([f"{KEY}-r1"], None)


@pytest.mark.parametrize("number", [SHARE_MAX, SHARE_MAX + 1, 2 * SHARE_MAX + 50])
def test_every_case_of_limbo_is_counted_and_looked_at_within_minutes(
    calls: Calls,
    *,
    step_functions: StepFunctions,
    later: Later,
    counted: Counted,
    listing: Callable[[Listing], None],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    calls.fall()
    row, looked_at = calls.row(), set[str]()
    since = "2026-11-20T12:00:00.123Z"
    cases = [keys.settlement(f"limbo-case-{case:06}") | {"gsi1sk": since} for case in range(number)]

    def read(key: keys.Row) -> keys.Row:
        looked_at.add(key["pk"])
        return row | key

    listing(lambda real, partition, **_: iter(cases if partition == keys.LIMBO else []))
    monkeypatch.setattr(_dependencies.store, "read", read)
    monkeypatch.setattr(_dependencies.store, "update", lambda write: row)
    turns = -(-number // SHARE_MAX)
    firsts = iter([(number - 50 + turn * SHARE_MAX) % number for turn in range(turns)])  # past the end, too
    monkeypatch.setattr(_dependencies.random, "randrange", lambda stop: next(firsts) if stop == number else 0)

    for minute in range(1, turns + 1):
        later(minutes=minute)
        counted()
        calls.recover()
        metrics = counted()
        assert (metrics["LimboOpen"], metrics["OldestLimboSeconds"]) == (number, minute * 60)
        assert metrics["RecoveredByAlert"] == metrics["Recoveries"] == min(SHARE_MAX, number)

    assert len(looked_at) == number


def test_each_run_begins_at_a_random_case_of_limbo() -> None:
    """With a fixed stride some number of cases would always leave one out."""
    assert {_dependencies.random.randrange(3) for _ in range(200)} == {0, 1, 2}


def test_a_run_that_is_out_of_time_begins_no_other_settlement_and_counts_that(
    calls: Calls, step_functions: StepFunctions, later: Later, counted: Counted
) -> None:
    claimed(calls, later)
    counted()

    calls.recover(20_000 - (len(step_functions.names) >= 2) for _ in repeat(None))

    metrics = run(RecoveredByCompensation=2, Recoveries=2, RecoveryCutShort=1, OldestInFlightSeconds=900)
    assert counted() == metrics
    calls.recover()
    assert recovered(step_functions)
    assert "RecoveryCutShort" not in counted()


@pytest.mark.parametrize(
    ("left_ms", "names"),
    [
        pytest.param(35_000, [f"{KEY}-compensate-1", f"{OTHER_KEYS[0]}-r1"], id="enough for both"),
        pytest.param(34_999, [f"{OTHER_KEYS[0]}-r1"], id="not enough for LIMBO"),
        pytest.param(20_000, [f"{OTHER_KEYS[0]}-r1"], id="enough for those in flight"),
        pytest.param(19_999, [], id="not enough for either"),
    ],
)
def test_limbo_comes_first_and_leaves_most_of_a_run_to_settlements_in_flight(
    calls: Calls,
    *,
    step_functions: StepFunctions,
    later: Later,
    counted: Counted,
    left_ms: int,
    names: list[str],
) -> None:
    calls.fall()
    calls("ClaimKey", WIRE | {"key": OTHER_KEYS[0]})
    later(seconds=30)
    counted()

    calls.recover(repeat(left_ms))

    assert step_functions.names == names
    metrics = counted()
    assert (metrics["LimboOpen"], metrics["Recoveries"]) == (1, len(names))
    assert metrics.get("RecoveryCutShort", 0) == 2 - len(names)
