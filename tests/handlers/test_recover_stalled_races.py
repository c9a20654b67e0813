"""RecoverStalled: two runs at once, an index that lags, a start that fails, a row that is broken."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from handlers import _runtime
from settlement import rows
from settlement.errors import StoreUnavailable
from tests.handlers.calls import KEY, WIRE, Calls
from tests.handlers.conftest import Counted
from tests.handlers.stand_ins import Died, Starts, throttled, unanswered

Later = Callable[..., None]

FIRST = f"{KEY}-compensate-1"
OTHER_KEYS = [f"order-2026-0002{number:02}" for number in range(12)]


@pytest.mark.parametrize("failure", [throttled("StartExecution"), unanswered(), Died()])
def test_what_could_not_be_started_is_found_again(
    calls: Calls, starts: Starts, later: Later, counted: Counted, failure: BaseException
) -> None:
    calls.after("HoldFunds")
    later(minutes=15)
    starts.failure = failure
    counted()
    try:
        calls.recover()
        assert counted() == {"StepCalled": 1, "NotRecovered": 1}
    except Died:
        counted()
    starts.failure = None

    calls.recover()
    assert starts.made == []
    later(minutes=15, seconds=30)
    calls.recover()

    name = f"{KEY}-compensate-2"
    assert starts.names == [name]
    assert (calls.row()["recoveries"], calls.row()["given_up_at"]) == (2, "2026-11-20T12:15:30.123Z")


def test_what_was_started_is_not_started_again_while_it_is_on_its_way(
    calls: Calls, starts: Starts, later: Later
) -> None:
    calls.after("HoldFunds")
    later(minutes=15)
    calls.recover()

    with calls.writes_nothing():
        calls.recover()

    assert starts.asked == 1


def test_of_two_runs_at_once_one_starts(
    calls: Calls, starts: Starts, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.after("HoldFunds")
    later(minutes=15)
    listed = _runtime.store.listed
    found = {s: list(listed(rows.in_flight_partition(s), up_to="9")) for s in range(rows.IN_FLIGHT_SHARDS)}

    def seen_before(partition: str, *, up_to: str) -> Iterator[rows.Row]:
        return iter(found[int(partition.partition("#")[2])])

    monkeypatch.setattr(_runtime.store, "listed", seen_before)

    calls.recover()
    with calls.writes_nothing():
        calls.recover()

    assert starts.names == [FIRST]


@pytest.mark.parametrize(
    "meanwhile",
    [
        {"gsi1sk": "2026-11-20T12:20:00.000Z"},
        {"deadline_at": "2026-11-21T12:00:00.123Z"},
        {"status": "COMPENSATING"},
        {"steps": {"hold", "verify", "release"}},
    ],
)
def test_an_index_that_lags_behind_decides_nothing(
    calls: Calls, starts: Starts, later: Later, monkeypatch: pytest.MonkeyPatch, meanwhile: dict[str, Any]
) -> None:
    calls.after("HoldFunds")
    later(minutes=15)
    stale = calls.row()
    monkeypatch.setattr(
        _runtime.store, "listed", lambda partition, up_to: iter([stale] * (partition == stale["gsi1pk"]))
    )
    calls.alter(**meanwhile)

    with calls.writes_nothing():
        calls.recover()

    assert starts.asked == 0


def claimed(calls: Calls, later: Later) -> None:
    """Claim a key in every index partition, and then let all the deadlines pass."""
    for key in OTHER_KEYS:
        calls("ClaimKey", WIRE | {"key": key})
    in_use = {row["gsi1pk"] for row in calls.ledger.rows() if rows.is_settlement(row)}
    assert len(in_use) == rows.IN_FLIGHT_SHARDS
    later(minutes=15)


def test_every_partition_of_the_index_is_looked_at(calls: Calls, starts: Starts, later: Later) -> None:
    claimed(calls, later)

    calls.recover()

    assert sorted(starts.names) == [f"{key}-compensate-1" for key in OTHER_KEYS]


@pytest.mark.parametrize(
    "poison",
    [
        {"currency": "XXX"},
        {"recoveries": "many"},
        {"payer": None},
        {"fee": {"a": 1}},
    ],
)
def test_a_row_that_cannot_be_recovered_does_not_keep_the_others_waiting(
    calls: Calls, starts: Starts, later: Later, counted: Counted, poison: dict[str, Any]
) -> None:
    calls.after("HoldFunds")
    calls.alter(**poison)
    claimed(calls, later)
    counted()

    calls.recover()

    told = counted()
    assert sorted(set(starts.names) - {FIRST}) == [f"{key}-compensate-1" for key in OTHER_KEYS]
    assert told["RecoveredByCompensation"] + told.get("NotRecovered", 0) == 1 + len(OTHER_KEYS)


def test_a_partition_that_cannot_be_listed_does_not_keep_the_others_waiting(
    calls: Calls, starts: Starts, later: Later, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed(calls, later)
    counted()
    listed, first = _runtime.store.listed, rows.in_flight_partition(0)
    waiting = {row["pk"] for row in calls.ledger.rows() if row.get("gsi1pk") == first}

    def throttles(partition: str, *, up_to: str) -> Iterator[rows.Row]:
        if partition == first:
            raise StoreUnavailable("DynamoDB: ThrottlingException")
        return listed(partition, up_to=up_to)

    monkeypatch.setattr(_runtime.store, "listed", throttles)

    calls.recover()

    assert len(starts.names) == len(OTHER_KEYS) - len(waiting)
    assert counted()["NotRecovered"] == 1


def test_what_is_started_is_plain_json(parked: Calls, starts: Starts, later: Later) -> None:
    later(days=1)
    parked.recover()

    assert json.loads(json.dumps(starts.made[0][2])) == starts.made[0][2]
