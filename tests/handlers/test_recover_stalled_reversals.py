"""RecoverStalled: a reversal or a case of LIMBO gets a new execution only if none runs it."""

from collections.abc import Callable

import pytest

from handlers import _dependencies
from settlement.ledger.keys import settlement
from tests.handlers.calls import EXECUTION_ARN, KEY, REJECTED_BY_KYC, WIRE, Calls, run
from tests.handlers.conftest import Counted
from tests.handlers.stand_ins import Starts, execution, throttled, unanswered

Later = Callable[..., None]

FIRST = execution("compensation-1")
"""The execution that begins every reversal in these tests."""

STARTED = ("Compensation", f"{KEY}-compensate-1", {"settlement": WIRE})
ENDS = ["SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"]


def reversing(calls: Calls) -> None:
    calls.after("ReleaseFunds")
    calls.begin(error=REJECTED_BY_KYC)


def limbo(calls: Calls, *, waits: bool = True) -> None:
    calls.fall("release")
    if waits:
        calls("AwaitResolution", token="AQC", execution_arn=EXECUTION_ARN)


@pytest.mark.parametrize("end", [None, *ENDS])
def test_a_reversal_without_a_running_execution_gets_a_new_one(
    calls: Calls, starts: Starts, later: Later, counted: Counted, end: str | None
) -> None:
    reversing(calls)
    starts.ended = {FIRST: end} if end else {}
    before = calls.row()
    later(seconds=30)
    counted()

    calls.recover()

    assert (starts.described, starts.made) == ([FIRST], [STARTED])
    taken_on = {"owner_epoch": 1, "owner": STARTED[1], "gsi1sk": "2026-11-20T12:01:30.123Z"}
    assert calls.row() == before | taken_on
    assert counted() == run(RecoveredByCompensation=1, Recoveries=1, OldestInFlightSeconds=30)


def test_the_new_execution_reverses_the_steps_that_the_old_one_has_left(
    calls: Calls, starts: Starts, later: Later
) -> None:
    calls.after("ReleaseFunds")
    calls.unwind(calls.begin(error=REJECTED_BY_KYC), "VoidHold")
    later(days=1)
    calls.recover()

    calls.unwind(calls.begin(starts.made[0][2]))

    row = calls.row()
    assert (row["status"], row["escrow"], row["failure"]["error"]) == ("COMPENSATED", 0, "KycRejected")
    assert calls.account("alice") == {"available": 10_000, "currency": "EUR"}
    assert calls.account("bob") == {"available": 500, "currency": "EUR"}


def test_a_reversal_with_a_running_execution_is_looked_at_later_and_keeps_its_owner(
    calls: Calls, starts: Starts, later: Later, counted: Counted
) -> None:
    reversing(calls)
    starts.running = {FIRST}
    before = calls.row()
    later(seconds=30)
    counted()

    calls.recover()

    assert starts.asked == 0
    assert calls.row() == before | {"gsi1sk": "2026-11-20T12:01:30.123Z"}
    assert counted() == run(OldestInFlightSeconds=30)


def test_a_reversal_whose_execution_dies_after_it_was_seen_alive_is_found_again(
    calls: Calls, starts: Starts, later: Later
) -> None:
    reversing(calls)
    starts.running = {FIRST}
    later(seconds=30)
    calls.recover()
    starts.ended = {FIRST: "ABORTED"}
    later(seconds=89, milliseconds=999)
    calls.recover()
    assert starts.made == []
    later(seconds=90)

    calls.recover()

    assert starts.made == [STARTED]


def test_a_settlement_execution_of_the_same_name_runs_no_reversal(
    calls: Calls, starts: Starts, later: Later
) -> None:
    reversing(calls)
    starts.running = {execution("compensation-1", machine="SettlementStandard")}
    later(seconds=30)

    calls.recover()

    assert starts.made == [STARTED]


@pytest.mark.parametrize("failure", [throttled("DescribeExecution"), unanswered()])
def test_a_reversal_whose_execution_cannot_be_described_is_deferred_for_a_minute(
    calls: Calls, starts: Starts, later: Later, counted: Counted, failure: Exception
) -> None:
    reversing(calls)
    before = calls.row()
    later(seconds=30)
    starts.not_described = failure
    counted()

    calls.recover()
    metrics = counted()
    assert (metrics["NotRecovered"], metrics["Recoveries"], starts.asked) == (1, 0, 0)
    assert calls.row() == before | {"gsi1sk": "2026-11-20T12:01:30.123Z"}
    starts.not_described = None
    later(seconds=89, milliseconds=999)
    with calls.writes_nothing():
        calls.recover()
    later(seconds=90)
    calls.recover()

    assert starts.made == [STARTED]


@pytest.mark.parametrize("failure", [throttled("DescribeExecution"), unanswered()])
def test_a_case_whose_execution_cannot_be_described_is_left_as_it_is(
    calls: Calls,
    starts: Starts,
    later: Later,
    counted: Counted,
    failure: Exception,
) -> None:
    limbo(calls)
    later(seconds=30)
    starts.not_described = failure
    counted()

    with calls.writes_nothing():
        calls.recover()
    metrics = counted()
    starts.not_described = None
    calls.recover()

    assert (metrics["NotRecovered"], metrics["Recoveries"], starts.made) == (1, 0, [STARTED])


@pytest.mark.parametrize("waits", [True, False])
def test_a_case_of_limbo_without_a_waiting_execution_alerts_again(
    calls: Calls, starts: Starts, later: Later, counted: Counted, waits: bool
) -> None:
    limbo(calls, waits=waits)
    before = calls.row()
    later(seconds=90)
    counted()

    calls.recover()

    assert starts.made == [STARTED]
    taken_on = {"owner_epoch": 1, "owner": STARTED[1], "recover_at": "2026-11-20T12:02:30.123Z"}
    assert calls.row() == before | taken_on
    metrics = run(RecoveredByAlert=1, Recoveries=1, LimboOpen=1, OldestLimboSeconds=90)
    assert counted() == metrics
    found = calls.begin(starts.made[0][2])
    assert (found["in_limbo"], found["case"]) == (True, 1)


@pytest.mark.parametrize(
    ("running", "waiting"),
    [
        pytest.param(FIRST, FIRST, id="the owner waits"),
        pytest.param(execution("a-decision-s"), execution("a-decision-s"), id="another one waits"),
        pytest.param(FIRST, None, id="the owner is on its way to wait"),
        pytest.param(FIRST, execution("one-that-died"), id="the owner is on its way to wait in its place"),
    ],
)
def test_a_case_of_limbo_with_a_running_execution_is_counted_and_left_alone(
    calls: Calls, starts: Starts, later: Later, counted: Counted, running: str, waiting: str | None
) -> None:
    limbo(calls, waits=False)
    if waiting:
        calls.alter(waiting={"token": "AQC", "execution": waiting})
    starts.running = {running}
    later(seconds=90)
    counted()

    with calls.writes_nothing():
        calls.recover()

    assert (starts.asked, counted()) == (0, run(LimboOpen=1, OldestLimboSeconds=90))


def test_a_case_of_limbo_whose_alert_was_started_is_not_looked_at_before_its_time(
    calls: Calls, starts: Starts, later: Later
) -> None:
    limbo(calls)
    later(seconds=30)
    calls.recover()
    starts.ended = {execution(STARTED[1]): "FAILED"}
    starts.described.clear()
    later(seconds=89, milliseconds=999)
    with calls.writes_nothing():
        calls.recover()
    assert starts.described == []
    later(seconds=90)

    calls.recover()

    assert starts.names == [STARTED[1], f"{KEY}-compensate-2"]
    assert calls.row()["recover_at"] == "2026-11-20T12:03:30.123Z"


def test_a_decided_case_is_resumed_by_a_new_execution_if_the_waiting_one_is_gone(
    calls: Calls, starts: Starts, later: Later, counted: Counted
) -> None:
    limbo(calls)
    later(hours=5)
    calls.resolve("write-off")
    later(hours=5, seconds=30)
    counted()

    calls.recover()

    assert starts.made == [STARTED]
    assert counted() == run(RecoveredByCompensation=1, Recoveries=1, OldestInFlightSeconds=30)
    calls.unwind(calls.begin(starts.made[0][2]))
    assert (calls.row()["status"], calls.row()["escrow"]) == ("COMPENSATED", 0)


def test_a_settlement_that_has_entered_limbo_counts_as_limbo_and_not_as_in_flight(
    calls: Calls, starts: Starts, later: Later, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    reversing(calls)
    listed = calls.row()
    calls.alter(status="LIMBO", gsi1pk="LIMBO", gsi1sk="2026-11-20T12:00:00.123Z", stuck_step="release")
    starts.running = {FIRST}
    later(hours=1)
    real = calls.ledger.store.listed
    monkeypatch.setattr(
        calls.ledger.store.__class__,
        "listed",
        lambda self, partition, **bounds: (
            iter([listed])
            if partition == listed["gsi1pk"]
            else iter([settlement(KEY) | {"gsi1sk": "2026-11-20T12:00:00.123Z"}])
            if partition == "LIMBO"
            else real(partition, **bounds)
        ),
    )
    counted()

    with calls.writes_nothing():
        calls.recover()

    assert counted() == run(LimboOpen=1, OldestLimboSeconds=3600)


@pytest.mark.parametrize("end", [None, *ENDS])
def test_an_expired_settlement_is_left_to_its_compensation_while_that_runs(
    calls: Calls, starts: Starts, later: Later, end: str | None
) -> None:
    """The settlement is PROCESSING until that execution begins, which Lambda may delay for minutes."""
    calls.after("HoldFunds")
    later(minutes=15)
    calls.recover()
    if end:
        starts.ended = {execution(f"{KEY}-compensate-1"): end}
    later(minutes=16)

    calls.recover()
    calls.recover_now(KEY)

    expected = ["compensate-1", *(["compensate-2"] if end else [])]
    assert starts.names == [f"{KEY}-{name}" for name in expected]
    assert calls.row()["gsi1sk"] > "2026-11-20T12:16:00.123Z"


def test_each_run_begins_at_a_random_case_of_limbo() -> None:
    """With a fixed stride some number of cases would always leave one out."""
    assert {_dependencies.random.randrange(3) for _ in range(200)} == {0, 1, 2}
