from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from itertools import chain, repeat
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest

from handlers import _dependencies
from handlers.core import _workers
from settlement.core import telemetry
from settlement.core.model.errors import StartUnavailable
from tests.handlers.conftest import Calls
from tests.handlers.stalled import (
    FIRST,
    claim,
    compensated,
    copies,
    held,
    limbo,
    overdue,
    recover_later,
    resumed,
    reversing,
)
from tests.world.constants import KEY, NONCE
from tests.world.definitions import COMPENSATION, EXPRESS, STANDARD
from tests.world.environment import NOW
from tests.world.functions import FORWARD, run
from tests.world.services import Died, throttled, unanswered
from tests.world.step_functions import client_error

START = throttled("StartExecution")


@pytest.fixture
def pauses(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(_workers, "pause", found.append)
    return found


# Deadlines


def test_a_settlement_found_only_after_its_deadline_still_settles(calls: Calls) -> None:
    held(calls)
    before = calls.row()

    counted = recover_later(calls, hours=1)

    assert calls.step_functions.started == [resumed()]
    assert calls.row() == before | {
        "owner_epoch": 1,
        "owner": f"{KEY}-r1-{NONCE}",
        "gsi1sk": "2026-11-20T13:01:00.123Z",
        "deadline_at": "2026-11-20T13:14:30.123Z",
        "deadline_extended_at": "2026-11-20T13:00:00.123Z",
    }
    behind = {"OldestInFlightSeconds": 3600, "RecoveryBehindSeconds": 3570}
    assert counted == run(RecoveredBySettlement=1, Recoveries=1, **behind)
    calls.run(*FORWARD, execution=f"{KEY}-r1-{NONCE}")
    assert calls.row()["status"] == "SETTLED"


# Quotas of Step Functions


THROTTLED = ["ThrottlingException", "ExecutionLimitExceeded"]


@pytest.mark.parametrize("code", THROTTLED)
def test_recovery_starts_an_express_execution_if_standard_is_throttled(
    calls: Calls, pauses: list[float], code: str
) -> None:
    held(calls)
    calls.step_functions.refusing[STANDARD] = client_error("StartExecution", code)

    counted = recover_later(calls, seconds=30)

    assert (calls.step_functions.asked, calls.step_functions.started) == (
        [STANDARD, EXPRESS],
        [resumed(on=EXPRESS)],
    )
    assert (calls.row()["owner"], calls.row()["owner_epoch"], pauses) == (f"{KEY}-r1-{NONCE}", 1, [])
    started = run(RecoveredBySettlement=1, RecoveredByExpress=1, Recoveries=1)
    assert counted == started | {"OldestInFlightSeconds": 30}


@pytest.mark.parametrize(
    "failure", [unanswered(), Died(), client_error("StartExecution", "AccessDeniedException")]
)
def test_another_failure_of_standard_starts_nothing_on_express(calls: Calls, failure: BaseException) -> None:
    held(calls)
    calls.later(seconds=30)
    calls.step_functions.refusing[STANDARD] = failure

    with suppress(Died):
        calls.recover()

    assert (calls.step_functions.asked, calls.step_functions.started) == ([STANDARD], [])


@pytest.mark.parametrize("code", THROTTLED)
def test_a_throttled_express_start_is_repeated_under_the_same_name(
    calls: Calls, pauses: list[float], code: str
) -> None:
    held(calls)
    calls.later(seconds=30)
    refused = chain([True] * 5, repeat(False))

    def throttles(operation: str) -> None:
        if next(refused):
            raise client_error("StartExecution", code)

    calls.step_functions.before = throttles
    calls.counted()

    calls.recover()

    assert calls.step_functions.asked == [STANDARD, *[EXPRESS] * 5]
    assert calls.step_functions.started == [resumed(on=EXPRESS)]
    assert calls.row()["owner_epoch"] == 1
    assert all(0 <= pause <= 0.1 * 2**number for number, pause in enumerate(pauses, start=1))
    assert len(pauses) == 4
    started = run(RecoveredBySettlement=1, RecoveredByExpress=1, Recoveries=1)
    assert calls.counted() == started | {"RecoveryThrottled": 4, "OldestInFlightSeconds": 30}


@pytest.mark.parametrize(
    ("put", "minutes", "asked"),
    [
        (held, 1, [STANDARD, *[EXPRESS] * 5]),
        (overdue, 15, [COMPENSATION] * 5),
        (reversing, 1, [COMPENSATION] * 5),
    ],
)
def test_a_settlement_whose_start_is_always_throttled_stays_due(
    calls: Calls, pauses: list[float], put: Callable[[Calls], None], minutes: int, asked: list[str]
) -> None:
    put(calls)
    before = calls.row()
    calls.later(minutes=minutes)
    calls.step_functions.failing["start_execution"] = START
    calls.counted()

    calls.recover()

    metrics, row = calls.counted(), calls.row()
    assert (row["gsi1sk"], row["owner_epoch"]) == (before["gsi1sk"], 1)
    assert (metrics["Recoveries"], metrics["RecoveryThrottled"], len(pauses)) == (0, 5, 4)
    assert not metrics.keys() & {"NotRecovered", "StartUnavailable", "RecoveredByExpress"}
    assert calls.step_functions.asked == asked, "a reversal has no other machine"
    calls.step_functions.failing.clear()
    calls.recover()
    ((started, name, _),) = calls.step_functions.started
    assert (started, name) == (asked[0], f"{KEY}-{'r' if put is held else 'c'}2-{NONCE}")


def test_the_deadline_is_extended_while_no_start_is_granted(calls: Calls) -> None:
    held(calls)
    calls.step_functions.failing["start_execution"] = START
    for minute in (1, 14, 20, 40):
        calls.later(minutes=minute)
        calls.recover()
    calls.step_functions.failing.clear()
    calls.later(minutes=60)

    calls.recover()

    assert calls.step_functions.started == [resumed(5)]
    assert calls.row()["deadline_at"] == "2026-11-20T13:14:30.123Z"  # as long as there was at 12:00:30


def test_a_throttled_alert_is_sent_again_after_the_pause(calls: Calls) -> None:
    """In LIMBO, the index sorts by the case's start, so the row's `recover_at` has the next look's time."""
    limbo(calls)
    since = calls.row()["gsi1sk"]
    calls.later(seconds=30)
    calls.step_functions.failing["start_execution"] = START
    calls.counted()
    calls.recover()
    calls.step_functions.failing.clear()
    assert calls.counted()["RecoveryThrottled"] == 5
    assert calls.step_functions.asked == [COMPENSATION] * 5
    assert (calls.row()["gsi1sk"], calls.row()["recover_at"]) == (since, "2026-11-20T12:01:30.123Z")
    calls.later(seconds=90)

    calls.recover()

    assert calls.step_functions.started == [compensated(2)]


@pytest.mark.parametrize("put", [reversing, limbo])
def test_a_settlement_stays_due_if_describing_its_execution_is_throttled(
    calls: Calls, put: Callable[[Calls], None]
) -> None:
    put(calls)
    calls.later(seconds=30)
    calls.step_functions.failing["describe_execution"] = throttled("DescribeExecution")
    calls.counted()

    with calls.writes_nothing():
        calls.recover()

    metrics = calls.counted()
    assert (calls.step_functions.described, metrics["RecoveryThrottled"]) == ([FIRST], 1)
    assert "NotRecovered" not in metrics
    calls.step_functions.failing.clear()
    calls.recover()
    assert calls.step_functions.started == [compensated()]


def test_a_throttled_recover_order_fails_at_once_and_changes_nothing(
    calls: Calls, pauses: list[float]
) -> None:
    held(calls)
    due = calls.row()["gsi1sk"]
    calls.step_functions.failing["start_execution"] = START

    with pytest.raises(StartUnavailable):
        calls.recover_now()

    assert (calls.step_functions.asked, pauses, calls.row()["gsi1sk"]) == ([STANDARD, EXPRESS], [], due)


# The pace


def test_a_run_spaces_its_starts_evenly(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine pauses for ten looks, each until the next tenth of a second."""
    claim(calls)
    copies(calls, 9)
    began = NOW + timedelta(seconds=30)
    clock, paused = [began], []

    def pause(seconds: float) -> None:
        paused.append(round(seconds, 6))
        clock[0] += timedelta(seconds=seconds)

    monkeypatch.setattr(_dependencies, "now", lambda: clock[0])
    monkeypatch.setattr(_workers, "pause", pause)
    monkeypatch.setattr(_workers, "THREADS", 1)
    monkeypatch.setattr(_workers, "starts_per_second", lambda: 10.0)

    calls.recover()

    assert (paused, len(calls.step_functions.names)) == ([0.1] * 9, 10)


def test_threads_share_one_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread takes its own turn, even before any has waited."""
    paused: list[float] = []
    monkeypatch.setattr(_workers, "pause", paused.append)
    monkeypatch.setattr(_dependencies, "now", lambda: NOW)
    pace = _workers.Pace(2)

    _workers.each(lambda _: pace.wait(), range(8))

    assert sorted(paused) == [0.5 * turn for turn in range(1, 8)]


def test_unused_time_earns_no_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst would meet the quota of Step Functions when it is needed most."""
    paused: list[float] = []
    moments = [NOW, NOW + timedelta(seconds=60), NOW + timedelta(seconds=60)]
    monkeypatch.setattr(_workers, "pause", paused.append)
    monkeypatch.setattr(_dependencies, "now", lambda: moments.pop(0))
    pace = _workers.Pace(2)

    for _ in range(3):
        pace.wait()

    assert paused == [0.5]


def test_settlements_are_looked_at_in_parallel_and_answered_in_order() -> None:

    together = Barrier(_workers.THREADS)

    def look(number: int) -> int:
        together.wait(timeout=10)
        return -number

    assert _workers.each(look, range(_workers.THREADS)) == [-n for n in range(_workers.THREADS)]


def test_threads_never_count_metrics_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Powertools reads, changes and writes its metrics: concurrent threads would lose a count."""

    together, met = Barrier(2), list[bool]()

    def add(**_: Any) -> None:
        try:
            together.wait(timeout=0.2)
            met.append(True)
        except BrokenBarrierError:
            met.append(False)

    monkeypatch.setattr(telemetry.metrics, "add_metric", add)

    _workers.each(telemetry.count, ["Recoveries"] * 2)

    assert met == [False, False]
