"""RecoverStalled: a run works on one partition while it has time; the next run continues."""

import io
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from typing import Any

import pytest

from handlers import _dependencies
from handlers.core import _workers
from handlers.core.recover_stalled import _FIRSTS, CASES_MAX, PARTITIONS
from settlement.core.ledger import keys
from settlement.core.model.errors import InvalidRequest, StoreUnavailable
from tests.handlers.conftest import Calls
from tests.handlers.stalled import (
    AT_THE_HEAD,
    OTHER_KEYS,
    SHARDS,
    all_overdue,
    claim,
    copies,
    not_recovered,
    recover_later,
)
from tests.world.constants import KEY, NONCE
from tests.world.functions import Context, run

UNAVAILABLE = StoreUnavailable("DynamoDB: ThrottlingException")
Listing = Callable[..., Iterator[keys.Row]]


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_workers, "THREADS", 1)


@pytest.fixture
def listing(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Replace the store's listing by a fake, which also gets the real one."""

    def replace(fake: Callable[..., Any]) -> None:
        real = _dependencies.store.listed
        monkeypatch.setattr(
            _dependencies.store, "listed", lambda partition, **bounds: fake(real, partition, **bounds)
        )

    return replace


@pytest.mark.parametrize("partition", PARTITIONS)
def test_the_limbo_run_also_lists_the_head_of_every_partition(
    calls: Calls, listing: Callable[[Listing], None], partition: str
) -> None:
    asked: list[tuple[str, str, int]] = []

    def noted(real: Listing, partition: str, *, up_to: str, limit: int) -> Iterator[keys.Row]:
        asked.append((partition, up_to, limit))
        return real(partition, up_to=up_to, limit=limit)

    listing(noted)
    calls.later(seconds=59.8)

    calls.handlers["RecoverStalled"]({"partition": partition}, Context())

    now = "2026-11-20T12:00:59.923Z"
    heads = [(shard, now, _FIRSTS) for shard in PARTITIONS if shard != keys.LIMBO]
    if partition == keys.LIMBO:
        assert asked == [*heads, (partition, "9999", 10_000)]
    else:
        assert asked == [(partition, now, 10_000)]


def test_recoverys_partitions_match_the_index() -> None:
    listed = {keys.in_flight_index(f"order-2026-{number:06}", "")["gsi1pk"] for number in range(100)}

    assert set(PARTITIONS) == listed | {keys.limbo_index("")["gsi1pk"]}
    assert len(PARTITIONS) == SHARDS + 1


@pytest.mark.parametrize(
    "event",
    [{}, None, [], {"partition": None}, {"partition": "IN_FLIGHT#8"}, {"partition": []}, {"shard": 1}],
)
def test_a_run_without_a_partition_is_refused(calls: Calls, event: Any) -> None:
    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=r"^partition: must be one of LIMBO, IN"):
        calls.handlers["RecoverStalled"](event, Context())

    assert calls.counted() == {"StepCalled": 1, "InvalidRequest": 1}


def test_a_partition_that_cannot_be_listed_does_not_delay_others(
    calls: Calls, log: io.StringIO, listing: Callable[[Listing], None]
) -> None:
    all_overdue(calls, calls.later)
    broken = [keys.LIMBO, keys.in_flight_partition(3)]
    waiting = {row["pk"] for row in calls.ledger.rows() if row.get("gsi1pk") == broken[1]}
    calls.counted()

    def throttles(real: Listing, partition: str, **bounds: Any) -> Iterator[keys.Row]:
        if partition in broken:
            raise UNAVAILABLE
        return real(partition, **bounds)

    listing(throttles)

    calls.recover()

    number = len(OTHER_KEYS) - len(waiting)
    metrics = run(NotRecovered=4, RecoveredByCompensation=number, Recoveries=number)
    for unknown in ("LimboOpen", "OldestLimboSeconds", "RecoveryBehindSeconds", "ReviewsEnding"):
        del metrics[unknown]  # a 0 would wrongly end an alarm
    assert calls.counted() == metrics | {"OldestInFlightSeconds": 900}
    assert not_recovered(log) == [
        (one, "StoreUnavailable") for one in ("the watch", broken[0], "the reviews", broken[1])
    ]


def test_the_settlements_listed_before_a_page_that_fails_are_recovered(
    calls: Calls, listing: Callable[[Listing], None]
) -> None:
    all_overdue(calls, calls.later)
    calls.counted()

    def one_and_no_more(real: Listing, partition: str, **bounds: Any) -> Iterator[keys.Row]:
        yield from islice(real(partition, **bounds), 1)
        raise UNAVAILABLE

    listing(one_and_no_more)

    calls.recover()

    failed = SHARDS + 2  # the watch and LIMBO, too
    assert (len(calls.step_functions.names), calls.counted()["NotRecovered"]) == (SHARDS, failed)


def test_a_partition_that_cannot_be_listed_publishes_no_age(
    calls: Calls, listing: Callable[[Listing], None]
) -> None:
    """The age is unknown, and a 0 would wrongly end an alarm."""

    def throttles(real: Listing, partition: str, **bounds: Any) -> Iterator[keys.Row]:
        raise UNAVAILABLE

    listing(throttles)
    calls.counted()

    calls.handlers["RecoverStalled"]({"partition": PARTITIONS[-1]}, Context())

    assert calls.counted() == {"StepCalled": 1, "NotRecovered": 1, "Recoveries": 0}


def test_recoverys_lag_is_the_delay_of_the_longest_overdue_settlement(calls: Calls) -> None:
    """The LIMBO run reports it, because a partition whose own run never begins would be silent."""
    for number, key in enumerate(OTHER_KEYS):
        calls.ledger.put(claim(calls, key) | {"gsi1sk": f"2026-11-20T12:{30 - number}:00.000Z"})
    calls.later(minutes=25)
    calls.counted()

    calls.handlers["RecoverStalled"]({"partition": keys.LIMBO}, Context())

    assert calls.counted()["RecoveryBehindSeconds"] == 360


# A run's time


@pytest.mark.parametrize("many", [1, 500])
def test_a_run_recovers_all_due_settlements_and_counts_them_exactly(calls: Calls, many: int) -> None:
    """Many threads count into the invocation's one set of metrics."""
    claim(calls)
    copies(calls, many - 1)

    counted = recover_later(calls, seconds=30)

    assert counted == run(Recoveries=many, RecoveredBySettlement=many, OldestInFlightSeconds=30)
    assert len(set(calls.step_functions.names)) == many


def test_rows_that_cannot_be_recovered_do_not_block_the_rest(calls: Calls) -> None:
    claim(calls)
    copies(calls, 200, gsi1sk=AT_THE_HEAD, currency="XXX")
    calls.later(seconds=30)
    calls.counted()

    calls.recover()
    metrics = calls.counted()
    calls.recover()

    assert (calls.step_functions.names, metrics["NotRecovered"]) == ([f"{KEY}-r1-{NONCE}"], 200)
    assert "NotRecovered" not in calls.counted()


@pytest.mark.parametrize("number", [CASES_MAX, CASES_MAX + 1, 2 * CASES_MAX + 50])
def test_every_case_of_limbo_is_visited_within_minutes(
    calls: Calls, listing: Callable[[Listing], None], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    calls.fall()
    row, looked_at = calls.row(), set[str]()
    since = "2026-11-20T12:00:00.123Z"
    cases = [keys.settlement(f"limbo-case-{case:06}") | {"gsi1sk": since} for case in range(number)]

    def read(key: keys.Row) -> keys.Row | None:
        if not keys.is_settlement(key):
            return None  # no execution waits
        looked_at.add(key["pk"])
        return row | key

    listing(lambda real, partition, **_: iter(cases if partition == keys.LIMBO else []))
    monkeypatch.setattr(_dependencies.store, "read", read)
    monkeypatch.setattr(_dependencies.store, "update", lambda write: row)
    turns = -(-number // CASES_MAX)
    firsts = iter([(number - 50 + turn * CASES_MAX) % number for turn in range(turns)])  # past the end, too
    monkeypatch.setattr(_dependencies.random, "randrange", lambda stop: next(firsts) if stop == number else 0)

    for minute in range(1, turns + 1):
        calls.later(minutes=minute)
        calls.counted()
        calls.recover()
        metrics = calls.counted()
        assert (metrics["LimboOpen"], metrics["OldestLimboSeconds"]) == (number, minute * 60)
        assert metrics["RecoveredByAlert"] == metrics["Recoveries"] == min(CASES_MAX, number)

    assert len(looked_at) == number


def test_each_limbo_run_begins_with_a_random_case() -> None:
    """A fixed stride would never reach a case, for some numbers of cases."""
    assert {_dependencies.random.randrange(3) for _ in range(200)} == {0, 1, 2}


@pytest.mark.usefixtures("one_thread")
def test_a_run_out_of_time_stops_and_is_counted(calls: Calls) -> None:
    claim(calls)
    copies(calls, 9)
    calls.later(seconds=30)
    calls.counted()

    calls.recover(20_000 - (len(calls.step_functions.names) >= 2) for _ in repeat(None))

    metrics = run(RecoveredBySettlement=2, Recoveries=2, RecoveryCutShort=1, OldestInFlightSeconds=30)
    assert calls.counted() == metrics
    calls.recover()
    assert len(calls.step_functions.names) == 10
    assert "RecoveryCutShort" not in calls.counted()


def test_a_limbo_run_without_time_leaves_cases_to_the_next(calls: Calls) -> None:
    calls.fall()
    calls.later(seconds=30)
    calls.counted()

    calls.recover(repeat(19_999))

    assert (calls.step_functions.called, calls.counted()["RecoveryCutShort"]) == ([], 1)
    calls.recover(repeat(20_000))
    assert calls.step_functions.names == [f"{KEY}-c1-{NONCE}"]


def test_the_settlements_that_are_due_for_longest_come_first(calls: Calls, one_thread: None) -> None:
    row = claim(calls)
    for minute in (5, 3, 4):
        key = f"order-2026-00000{minute}"
        calls.ledger.put(row | keys.settlement(key) | {"gsi1sk": f"2026-11-20T12:0{minute}:00.000Z"})
    calls.later(minutes=6)

    calls.recover()

    assert calls.step_functions.names == [
        f"{KEY}-r1-{NONCE}",
        *(f"order-2026-00000{n}-r1-{NONCE}" for n in (3, 4, 5)),
    ]


@pytest.mark.parametrize(
    ("hours_left", "counted_as"), [(1.01, 0), (0.99, 1), (0.26, 1), (0.24, 0), (-0.1, 0)]
)
def test_a_review_is_counted_only_shortly_before_its_end(
    in_review: Calls, hours_left: float, counted_as: int
) -> None:
    """In its last quarter of an hour, a review looks like a due settlement in the index."""
    in_review.later(hours=24 - hours_left)
    before = in_review.row()
    in_review.counted()

    in_review.handlers["RecoverStalled"]({"partition": keys.LIMBO}, Context())

    assert in_review.counted()["ReviewsEnding"] == counted_as
    assert in_review.row() == before


def test_a_settlement_without_a_review_is_not_counted_as_review(calls: Calls) -> None:
    claim(calls)
    for minute in range(0, 61, 4):
        calls.later(minutes=minute)
        calls.counted()
        calls.recover()
        assert calls.counted()["ReviewsEnding"] == 0


def test_reviews_are_not_counted_if_recovery_begins_after_an_hour(in_review: Calls) -> None:
    in_review.change_config(recover_after_seconds=3600)
    in_review.later(hours=23.5)
    in_review.counted()

    in_review.recover()

    assert in_review.counted()["ReviewsEnding"] == 0
