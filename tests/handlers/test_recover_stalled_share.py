"""RecoverStalled: a run looks at a bounded share, and the next one at the rest."""

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import pytest

from handlers import _dependencies
from handlers.recover_stalled import SHARE_MAX
from settlement.ledger import keys as ledger_keys
from settlement.ledger.keys import Row
from tests.handlers.calls import KEY, WIRE, Calls, run
from tests.handlers.conftest import Counted
from tests.handlers.stand_ins import Starts
from tests.handlers.test_recover_stalled_others import OTHER_KEYS, claimed

pytestmark = pytest.mark.parametrize("ledger", ["moto"], indirect=True)

Later = Callable[..., None]


def copies(calls: Calls, number: int, **attributes: Any) -> list[str]:
    """Put this many copies of the settlement into its index partition; return their keys."""
    row = calls.row()
    keys = [f"order-2026-1{copy:05}" for copy in range(number)]
    for key in keys:
        calls.ledger.put(row | ledger_keys.settlement(key) | attributes)
    return keys


def test_of_one_partition_a_run_looks_at_a_share_and_the_next_one_at_the_rest(
    calls: Calls, starts: Starts, later: Later, counted: Counted
) -> None:
    calls("ClaimKey")
    copies(calls, SHARE_MAX + 2)
    later(seconds=30)
    counted()

    calls.recover()
    assert counted() == run(Recoveries=SHARE_MAX, RecoveredBySettlement=SHARE_MAX, OldestInFlightSeconds=30)
    calls.recover()

    assert counted() == run(Recoveries=3, RecoveredBySettlement=3, OldestInFlightSeconds=30)
    assert len(set(starts.names)) == SHARE_MAX + 3


def test_rows_at_the_head_that_cannot_be_recovered_do_not_block_the_rest(
    calls: Calls, starts: Starts, later: Later, counted: Counted
) -> None:
    calls("ClaimKey")
    copies(calls, SHARE_MAX, gsi1sk="2026-11-20T11:00:00.000Z", currency="XXX")
    later(seconds=30)
    counted()

    calls.recover()
    assert (starts.names, counted()["NotRecovered"]) == ([], SHARE_MAX)
    calls.recover()

    assert (starts.names, counted().get("NotRecovered")) == ([f"{KEY}-r1"], None)


def test_a_run_that_is_out_of_time_begins_no_other_settlement_and_counts_that(
    calls: Calls, starts: Starts, later: Later, counted: Counted
) -> None:
    claimed(calls, later)
    counted()

    calls.recover(20_000 - (len(starts.names) >= 2) for _ in repeat(None))

    metrics = counted()
    assert (len(starts.names), metrics["Recoveries"], metrics["OldestInFlightSeconds"]) == (2, 2, 900)
    assert metrics["RecoveryCutShort"] >= 1
    calls.recover()
    assert sorted(starts.names) == [f"{key}-compensate-1" for key in OTHER_KEYS]
    assert "RecoveryCutShort" not in counted()


def test_a_run_without_any_time_writes_nothing_and_still_counts_the_cases_of_limbo(
    calls: Calls, starts: Starts, later: Later, counted: Counted
) -> None:
    calls.fall("release")
    later(minutes=15)
    counted()

    with calls.writes_nothing():
        calls.recover(repeat(9_999))

    assert starts.asked == 0
    assert counted() == run(RecoveryCutShort=2, LimboOpen=1, OldestLimboSeconds=900)


@pytest.mark.parametrize("number", [SHARE_MAX, SHARE_MAX + 1, 2 * SHARE_MAX + 50])
def test_every_case_of_limbo_is_counted_and_looked_at_within_minutes(
    calls: Calls,
    starts: Starts,
    later: Later,
    counted: Counted,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    calls.fall("release")
    row, looked_at = calls.row(), set[str]()
    since = "2026-11-20T12:00:00.123Z"
    cases = [ledger_keys.settlement(f"limbo-case-{case:06}") | {"gsi1sk": since} for case in range(number)]

    def listed(partition: str, *, up_to: str, limit: int) -> Iterator[Row]:
        assert limit >= number
        return iter(cases if partition == ledger_keys.LIMBO else [])

    def read(key: Row) -> Row:
        looked_at.add(key["pk"])
        return row | key

    monkeypatch.setattr(_dependencies.store, "listed", listed)
    monkeypatch.setattr(_dependencies.store, "read", read)
    monkeypatch.setattr(_dependencies.store, "update", lambda write: row)
    turns = -(-number // SHARE_MAX)
    firsts = iter(
        [(number - 50 + turn * SHARE_MAX) % number for turn in range(turns)]
    )  # past the end of the list, too
    monkeypatch.setattr(_dependencies.random, "randrange", lambda stop: next(firsts))

    for minute in range(1, turns + 1):
        later(minutes=minute)
        counted()
        calls.recover()
        metrics = counted()
        assert (metrics["LimboOpen"], metrics["OldestLimboSeconds"]) == (number, minute * 60)
        assert metrics["RecoveredByAlert"] == metrics["Recoveries"] == min(SHARE_MAX, number)

    assert len(looked_at) == number


def test_each_page_of_a_partition_is_asked_for_no_more_than_the_share(
    calls: Calls, starts: Starts, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []
    real = _dependencies.store.listed

    def listed(partition: str, *, up_to: str, limit: int) -> Iterator[Row]:
        asked.append((up_to, limit))
        return real(partition, up_to=up_to, limit=limit)

    monkeypatch.setattr(_dependencies.store, "listed", listed)
    later(minutes=1)

    calls.recover()

    due = ("2026-11-20T12:01:00.123Z", SHARE_MAX)
    assert asked == [("9999", 10_000)] + [due] * ledger_keys.IN_FLIGHT_SHARDS


def test_a_key_that_is_claimed_again_with_other_content_is_recovered_as_first_claimed(
    calls: Calls, starts: Starts, later: Later
) -> None:
    calls("ClaimKey")
    with pytest.raises(Exception, match="other content"):
        calls("ClaimKey", WIRE | {"amount": "99.99"})
    later(seconds=30)

    calls.recover()

    assert starts.made == [("SettlementStandard", f"{KEY}-r1", WIRE)]


@pytest.mark.parametrize(
    ("left_ms", "names"),
    [
        pytest.param(35_000, [f"{KEY}-compensate-1", f"{OTHER_KEYS[0]}-r1"], id="enough for both"),
        pytest.param(34_999, [f"{OTHER_KEYS[0]}-r1"], id="not enough for LIMBO"),
        pytest.param(9_999, [], id="not enough for either"),
    ],
)
def test_limbo_comes_first_and_leaves_most_of_a_run_to_settlements_in_flight(
    calls: Calls, starts: Starts, later: Later, counted: Counted, left_ms: int, names: list[str]
) -> None:
    calls.fall("release")
    calls("ClaimKey", WIRE | {"key": OTHER_KEYS[0]})
    later(seconds=30)
    counted()

    calls.recover(repeat(left_ms))

    assert starts.names == names
    metrics = counted()
    assert (metrics["LimboOpen"], metrics["Recoveries"]) == (1, len(names))
    assert metrics.get("RecoveryCutShort", 0) == 2 - len(names)
