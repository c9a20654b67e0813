from collections.abc import Callable

import pytest

from settlement.core.ledger import keys
from tests.handlers.conftest import Calls
from tests.handlers.stalled import ENDS, FIRST, compensated, freeze_index, limbo, recover_later, reversing
from tests.world.constants import EXECUTION_ARN, KEY, NONCE
from tests.world.functions import run
from tests.world.services import execution, unanswered


@pytest.mark.parametrize("end", [None, *ENDS])
def test_a_reversal_without_a_running_execution_gets_a_new_one(calls: Calls, end: str | None) -> None:
    reversing(calls)
    if end:
        calls.step_functions.add(FIRST, end)
    calls.step_functions.add(execution("compensation-1", machine="SettlementStandard"))  # it runs no reversal
    before = calls.row()

    counted = recover_later(calls, seconds=30)

    assert (calls.step_functions.described, calls.step_functions.started) == ([FIRST], [compensated()])
    taken_over = {"owner_epoch": 1, "owner": f"{KEY}-c1-{NONCE}", "gsi1sk": "2026-11-20T12:01:30.123Z"}
    assert calls.row() == before | taken_over
    assert counted == run(RecoveredByCompensation=1, Recoveries=1, OldestInFlightSeconds=30)


def test_a_running_reversal_is_deferred_until_its_execution_ends(calls: Calls) -> None:
    reversing(calls)
    calls.step_functions.add(FIRST)
    before = calls.row()
    calls.later(seconds=30)
    calls.counted()

    calls.recover()

    assert (calls.step_functions.started, calls.counted()) == ([], run(OldestInFlightSeconds=30))
    assert calls.row() == before | {"gsi1sk": "2026-11-20T12:01:30.123Z"}
    calls.step_functions.end(FIRST, "ABORTED")
    calls.later(seconds=90)
    calls.recover()
    assert calls.step_functions.started == [compensated()]


@pytest.mark.parametrize(
    ("put", "deferred"), [(reversing, {"gsi1sk": "2026-11-20T12:01:30.123Z"}), (limbo, {})]
)
def test_a_settlement_whose_execution_cannot_be_described_is_deferred(
    calls: Calls, put: Callable[[Calls], None], deferred: dict[str, str]
) -> None:
    put(calls)
    before = calls.row()
    calls.later(seconds=30)
    calls.step_functions.failing["describe_execution"] = unanswered()
    calls.counted()

    calls.recover()
    metrics = calls.counted()
    assert (metrics["NotRecovered"], metrics["Recoveries"], calls.step_functions.started) == (1, 0, [])
    assert calls.row() == before | deferred
    calls.step_functions.failing.clear()
    calls.later(seconds=90)
    calls.recover()

    assert calls.step_functions.started == [compensated()]


# LIMBO


@pytest.mark.parametrize("waits", [True, False])
def test_a_case_of_limbo_without_a_waiting_execution_alerts_again(calls: Calls, waits: bool) -> None:
    limbo(calls)
    if waits:
        calls("AwaitResolution", token="AQC", execution_arn=EXECUTION_ARN)
    before = calls.row()

    counted = recover_later(calls, seconds=90)

    assert (calls.step_functions.described, calls.step_functions.started) == ([FIRST], [compensated()])
    taken_over = {"owner_epoch": 1, "owner": f"{KEY}-c1-{NONCE}", "recover_at": "2026-11-20T12:02:30.123Z"}
    assert calls.row() == before | taken_over
    assert counted == run(RecoveredByAlert=1, Recoveries=1, LimboOpen=1, OldestLimboSeconds=90)
    found = calls.begin(calls.step_functions.started[0][2])
    assert (found["in_limbo"], found["case"]) == (True, 1)


@pytest.mark.parametrize(
    ("running", "waiting"),
    [
        pytest.param(FIRST, FIRST, id="the owner waits"),
        pytest.param(execution("another"), execution("another"), id="another one waits"),
        pytest.param(FIRST, None, id="the owner is on its way to wait"),
        pytest.param(FIRST, execution("one-that-died"), id="the owner is on its way to wait in its place"),
    ],
)
def test_a_limbo_case_with_a_running_execution_is_only_counted(
    calls: Calls, running: str, waiting: str | None
) -> None:
    limbo(calls)
    if waiting:
        calls("AwaitResolution", token="AQC", execution_arn=waiting)
    calls.step_functions.add(running)
    calls.later(seconds=90)
    calls.counted()

    with calls.writes_nothing():
        calls.recover()

    assert (calls.step_functions.started, calls.counted()) == ([], run(LimboOpen=1, OldestLimboSeconds=90))


@pytest.mark.parametrize(
    ("machine", "described"),
    [("Compensation", True), ("CompensationOfBefore", False), ("Compensatio", False)],
)
def test_recovery_does_not_describe_an_execution_of_a_deleted_machine(
    calls: Calls, machine: str, described: bool
) -> None:
    limbo(calls)
    waiting = execution("one-that-waits", machine)
    calls("AwaitResolution", token="AQC", execution_arn=waiting)
    calls.later(seconds=30)

    calls.recover()

    assert calls.step_functions.described == [FIRST, *([waiting] if described else [])]


def test_an_execution_that_waits_for_an_earlier_case_is_ignored(calls: Calls) -> None:
    """The row of a waiting execution stays until the next execution waits."""
    limbo(calls)
    waited = execution("one-that-waited")
    calls("AwaitResolution", token="AQC", execution_arn=waited)
    calls.step_functions.add(waited)
    calls.limbo(calls.begin(calls.resolve("retry")))
    calls.step_functions.machines.executions.clear()
    calls.step_functions.described.clear()
    calls.step_functions.started.clear()
    calls.later(hours=1)

    calls.recover()

    assert waited not in calls.step_functions.described
    assert calls.step_functions.names == [f"{KEY}-c1-{NONCE}"]


def test_an_alerted_case_is_not_looked_at_before_its_time(calls: Calls) -> None:
    limbo(calls)
    calls.later(seconds=30)
    calls.recover()
    calls.step_functions.end(execution(f"{KEY}-c1-{NONCE}"))
    calls.step_functions.described.clear()
    calls.later(seconds=89, milliseconds=999)
    with calls.writes_nothing():
        calls.recover()
    assert calls.step_functions.described == []
    calls.later(seconds=90)

    calls.recover()

    assert calls.step_functions.names == [f"{KEY}-c1-{NONCE}", f"{KEY}-c2-{NONCE}"]
    assert calls.row()["recover_at"] == "2026-11-20T12:03:30.123Z"


def test_a_decided_case_is_resumed_only_if_its_execution_died(calls: Calls) -> None:
    limbo(calls)
    calls("AwaitResolution", token="AQC", execution_arn=EXECUTION_ARN)
    calls.step_functions.add(FIRST)  # the one that waited is not asked about
    calls.resolve("write-off")
    decided = execution(f"{KEY}-resolve-{NONCE[:6]}")
    calls.step_functions.described.clear()
    calls.step_functions.started.clear()
    calls.later(seconds=30)
    calls.recover()
    assert (calls.step_functions.described, calls.step_functions.started) == ([decided], [])
    calls.step_functions.end(decided)
    calls.later(seconds=90)
    calls.counted()

    calls.recover()

    assert calls.step_functions.started == [compensated(order="resolve:1")]
    assert calls.counted() == run(RecoveredByCompensation=1, Recoveries=1, OldestInFlightSeconds=90)


def test_a_reversal_stuck_again_is_alerted_at_once(calls: Calls) -> None:
    limbo(calls)
    calls.later(hours=1)
    calls.recover()
    calls.limbo(calls.begin(calls.resolve("retry")))
    del calls.step_functions.started[1:]  # that of the decision

    calls.recover()

    assert calls.step_functions.names == [f"{KEY}-c1-{NONCE}", f"{KEY}-c2-{NONCE}"]


def test_a_stale_index_causes_no_alert_after_limbo(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    limbo(calls)
    freeze_index(calls, monkeypatch)
    calls.alter(status="COMPENSATING", gsi1pk=keys.in_flight_partition(2))
    calls.later(hours=1)
    calls.counted()

    with calls.writes_nothing():
        calls.recover()

    assert (calls.step_functions.called, calls.counted()) == ([], run(LimboOpen=1, OldestLimboSeconds=3600))
