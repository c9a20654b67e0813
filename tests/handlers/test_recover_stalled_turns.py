"""RecoverStalled: a later run begins with the rest of an earlier one; an expired settlement stays expired."""

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from handlers import _dependencies
from settlement.ledger import keys
from settlement.model.errors import DeadlineExceeded, StoreUnavailable
from settlement.model.verdict import Verdict
from tests.handlers.calls import CLAIMED_AT, KEY, Calls, run
from tests.handlers.conftest import Counted
from tests.handlers.stand_ins import Died, Starts, past, signed
from tests.handlers.test_recover_stalled_others import OTHER_KEYS, claimed
from tests.handlers.test_verify_kyc_races import ANSWERS, during
from tests.support.kyc import Provider

Later = Callable[..., None]
Listed = list[str]

SHARDS = keys.IN_FLIGHT_SHARDS


@pytest.fixture
def listed(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Listed:
    """The listed index partitions, in order."""
    partitions: Listed = []
    real = _dependencies.store.listed

    def listing(partition: str, **bounds: Any) -> Iterator[keys.Row]:
        partitions.append(partition)
        return real(partition, **bounds)

    monkeypatch.setattr(_dependencies.store, "listed", listing)
    return partitions


def in_turn(first: int) -> Listed:
    return [keys.in_flight_partition((first + turn) % SHARDS) for turn in range(SHARDS)]


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(
    ("minute", "first"), [(0, 0), (1, 1), (7, 7), (8, 0), (9, 1), (30, 6), (59, 3), (60, 0), (61, 1)]
)
def test_every_partition_is_looked_at_once_and_each_minute_another_one_first(
    calls: Calls, starts: Starts, later: Later, listed: Listed, minute: int, first: int
) -> None:
    later(minutes=minute)

    calls.recover()

    assert listed == [keys.LIMBO, *in_turn(first)]


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("seconds", [0, 30, 59.8])
def test_within_a_minute_the_first_partition_is_the_same(
    calls: Calls, starts: Starts, later: Later, listed: Listed, seconds: float
) -> None:
    later(minutes=5, seconds=seconds)

    calls.recover()

    assert listed == [keys.LIMBO, *in_turn(5)]


def test_runs_of_one_partition_each_reach_all_of_them_in_as_many_minutes(
    calls: Calls, starts: Starts, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed(calls, later)
    real, budget = _dependencies.store.listed, [0]

    def out_of_time(partition: str, **bounds: Any) -> Iterator[keys.Row]:
        if partition != keys.LIMBO:
            if not budget[0]:
                raise Died
            budget[0] -= 1
        return real(partition, **bounds)

    monkeypatch.setattr(_dependencies.store, "listed", out_of_time)

    for minute in range(15, 15 + SHARDS):
        later(minutes=minute)
        budget[0] = 1
        with pytest.raises(Died):
            calls.recover()

    assert {name.rpartition("-compensate-")[0] for name in starts.names} == set(OTHER_KEYS)


@pytest.mark.parametrize("minute", [15, 16, 22])
@pytest.mark.usefixtures("starts")
def test_a_partition_that_cannot_be_listed_does_not_delay_the_others_in_any_order(
    calls: Calls, later: Later, counted: Counted, monkeypatch: pytest.MonkeyPatch, minute: int
) -> None:
    claimed(calls, later)
    later(minutes=minute)
    real, broken = _dependencies.store.listed, keys.in_flight_partition(3)
    waiting = {row["pk"] for row in calls.ledger.rows() if row.get("gsi1pk") == broken}
    counted()

    def throttles(partition: str, **bounds: Any) -> Iterator[keys.Row]:
        if partition == broken:
            raise StoreUnavailable("DynamoDB: ThrottlingException")
        return real(partition, **bounds)

    monkeypatch.setattr(_dependencies.store, "listed", throttles)

    calls.recover()

    recovered = len(OTHER_KEYS) - len(waiting)
    metrics = run(NotRecovered=1, RecoveredByCompensation=recovered, Recoveries=recovered)
    assert counted() == metrics | {"OldestInFlightSeconds": (minute * 60)}


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
def test_a_partition_that_cannot_be_listed_is_logged_by_its_name(
    calls: Calls, later: Later, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def throttles(partition: str, **bounds: Any) -> Iterator[keys.Row]:
        raise StoreUnavailable("DynamoDB: ThrottlingException")

    monkeypatch.setattr(_dependencies.store, "listed", throttles)
    later(minutes=3)

    calls.recover()

    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    logged = [(line["what"], line["error"]) for line in lines if line["message"] == "not recovered"]
    assert logged == [(partition, "StoreUnavailable") for partition in [keys.LIMBO, *in_turn(3)]]


def test_the_settlements_listed_before_a_page_that_fails_are_recovered(
    calls: Calls, starts: Starts, later: Later, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed(calls, later)
    real = _dependencies.store.listed
    counted()

    def one_and_no_more(partition: str, **bounds: Any) -> Iterator[keys.Row]:
        yield from islice(real(partition, **bounds), 1)
        raise StoreUnavailable("DynamoDB: ThrottlingException")

    monkeypatch.setattr(_dependencies.store, "listed", one_and_no_more)

    calls.recover()

    metrics = run(NotRecovered=SHARDS + 1, RecoveredByCompensation=SHARDS, Recoveries=SHARDS)
    del metrics["LimboOpen"], metrics["OldestLimboSeconds"]  # LIMBO could not be listed
    assert counted() == metrics | {"OldestInFlightSeconds": 900}


@pytest.mark.parametrize("state", ["HoldFunds", "VerifyKyc", "ReleaseFunds"])
def test_a_step_whose_clock_lags_does_not_commit_an_expired_settlement(
    calls: Calls, provider: Provider, starts: Starts, later: Later, counted: Counted, state: str
) -> None:
    calls.before(state)
    later(minutes=15)
    calls.recover()
    later(minutes=14)
    provider.asked.clear()
    counted()

    with calls.writes_nothing(), pytest.raises(DeadlineExceeded):
        calls(state, claimed_at=CLAIMED_AT)

    assert (provider.asked, counted()) == ([], {"StepCalled": 1, "DeadlineExceeded": 1})
    calls.unwind(calls.begin(starts.made[0][2]))
    assert (calls.row()["status"], calls.row()["escrow"]) == ("COMPENSATED", 0)
    assert calls.account("alice") == {"available": 10_000, "currency": "EUR"}
    assert calls.account("bob") == {"available": 500, "currency": "EUR"}


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_verdict_on_an_expired_settlement_is_not_recorded_by_a_clock_that_lags(
    calls: Calls, provider: Provider, starts: Starts, later: Later, answer: Verdict
) -> None:
    calls.before("VerifyKyc")

    def expire() -> None:
        later(minutes=15)
        calls.recover()
        later(minutes=14)

    during(provider, answer, expire)

    with pytest.raises(DeadlineExceeded):
        calls("VerifyKyc")

    assert not calls.row().keys() & {"verdict", "review"}
    assert (calls.entries(), calls.row()["expired_at"]) == ({"hold"}, "2026-11-20T12:15:00.123Z")


@pytest.mark.parametrize("decision", ["APPROVED", "REJECTED"])
def test_a_webhook_whose_clock_lags_does_not_decide_an_expired_settlement(
    in_review: Calls, starts: Starts, later: Later, decision: str
) -> None:
    later(days=1)
    in_review.recover()
    later(hours=23, minutes=59)

    with in_review.writes_nothing():
        call = replace(signed, at=past(hours=23, minutes=59))
        status, content = in_review.decided(call(decision=decision))

    assert (status, content["error"]) == (409, "DeadlineExceeded")
    assert starts.names == [f"{KEY}-compensate-1"]


@pytest.mark.parametrize("state", ["HoldFunds", "VerifyKyc"])
def test_a_committed_step_is_replayed_even_if_the_settlement_has_expired(
    calls: Calls, provider: Provider, starts: Starts, later: Later, state: str
) -> None:
    calls.after(state)
    later(minutes=15)
    calls.recover()
    provider.asked.clear()

    with calls.writes_nothing():
        calls(state, claimed_at=CLAIMED_AT)

    assert provider.asked == []
