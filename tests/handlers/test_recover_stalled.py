"""RecoverStalled: one execution resumes a stalled settlement, reverses it, or alerts about it."""

import json
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from handlers import _dependencies
from settlement.ledger import keys
from settlement.model.status import Status
from tests.handlers.conftest import Counted, Later, Meanwhile
from tests.world.constants import EXECUTION_ARN, KEY, REJECTED_BY_KYC, WIRE
from tests.world.functions import Calls, run
from tests.world.services import Died, execution, signed, throttled, unanswered
from tests.world.step_functions import StepFunctions

NO_TIME_LEFT = {"Error": "DeadlineExceeded", "Cause": "recover: the time to settle is over"}
REVIEW_OVER = {"Error": "DeadlineExceeded", "Cause": "recover: the review has not ended in time"}
FIRST = execution("compensation-1")
"""The execution that begins every reversal in these tests."""

ENDS = ["SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"]


def resumed(number: int = 1) -> tuple[str, str, Any]:
    return ("SettlementStandard", f"{KEY}-r{number}", WIRE)


def compensated(number: int = 1, **more: Any) -> tuple[str, str, Any]:
    return ("Compensation", f"{KEY}-compensate-{number}", {"settlement": WIRE, **more})


def held(calls: Calls) -> None:
    calls.after("HoldFunds")


def reversing(calls: Calls) -> None:
    held(calls)
    calls.begin(error=REJECTED_BY_KYC)


def limbo(calls: Calls) -> None:
    calls.fall()


def quietly(recover: Callable[[], None]) -> None:
    """The first of two runs in one process publishes the metrics of both."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recover()


def freeze_index(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the index list the settlement as it is now, despite later writes."""
    stale = calls.row()
    monkeypatch.setattr(
        _dependencies.store, "listed", lambda partition, **_: iter([stale] * (partition == stale["gsi1pk"]))
    )


# In flight


@pytest.mark.parametrize(
    ("state", "by", "next_look"),
    [
        ("ClaimKey", {"seconds": 30}, "2026-11-20T12:01:30.123Z"),
        ("ReleaseFunds", {"days": 2}, "2026-11-22T12:01:00.123Z"),
    ],
)
def test_a_settlement_with_time_left_or_released_is_resumed_by_a_new_owner(
    calls: Calls,
    *,
    step_functions: StepFunctions,
    later: Later,
    counted: Counted,
    state: str,
    by: dict[str, float],
    next_look: str,
) -> None:
    calls.after(state)
    before = calls.row()
    later(**by)
    counted()

    calls.recover()

    assert step_functions.started == [resumed()]
    assert calls.row() == before | {"owner_epoch": 1, "owner": f"{KEY}-r1", "gsi1sk": next_look}
    seconds = by.get("seconds", 172_800)
    assert counted() == run(RecoveredBySettlement=1, Recoveries=1, OldestInFlightSeconds=seconds)


def test_an_unreleased_settlement_past_its_deadline_is_reversed(
    calls: Calls, step_functions: StepFunctions, later: Later, counted: Counted
) -> None:
    held(calls)
    before = calls.row()
    later(minutes=15)
    counted()

    calls.recover()

    assert step_functions.started == [compensated(error=NO_TIME_LEFT)]
    assert calls.row() == before | {
        "owner_epoch": 1,
        "owner": f"{KEY}-compensate-1",
        "gsi1sk": "2026-11-20T12:16:00.123Z",
        "expired_at": "2026-11-20T12:15:00.123Z",
    }
    assert counted() == run(RecoveredByCompensation=1, Recoveries=1, OldestInFlightSeconds=900)
    calls.unwind(calls.begin(step_functions.started[0][2]))
    assert (calls.row()["status"], calls.row()["failure"]["error"]) == ("COMPENSATED", "DeadlineExceeded")


def test_a_settlement_that_is_not_due_or_settled_is_left_alone(
    calls: Calls, step_functions: StepFunctions, later: Later, counted: Counted
) -> None:
    for state, by in (("ReleaseFunds", {"milliseconds": 29_999}), ("CollectFee", {"days": 2})):
        calls.after(state)
        later(**by)
        counted()

        with calls.writes_nothing():
            calls.recover()

        assert (step_functions.called, counted()) == ([], run())
        later(seconds=0)


def test_a_settlement_that_never_ends_is_resumed_less_and_less_often_and_refunded_at_its_deadline(
    calls: Calls, step_functions: StepFunctions, later: Later
) -> None:
    held(calls)
    started: dict[str, int] = {}

    for minute in range(16):
        later(minutes=minute)
        calls.recover()
        started |= {name: minute for name in step_functions.names if name not in started}

    expected = {f"{KEY}-r1": 1, f"{KEY}-r2": 2, f"{KEY}-r3": 4, f"{KEY}-r4": 8, f"{KEY}-compensate-5": 15}
    assert started == expected


def test_a_settlement_in_review_is_left_alone_until_the_end_of_the_review_and_then_reversed(
    in_review: Calls, step_functions: StepFunctions, later: Later
) -> None:
    later(hours=23, minutes=59, seconds=59, milliseconds=999)
    with in_review.writes_nothing():
        in_review.recover()
    later(days=1)

    in_review.recover()

    assert step_functions.started == [compensated(error=REVIEW_OVER)]
    assert json.loads(json.dumps(step_functions.started[0][2])) == step_functions.started[0][2]


@pytest.mark.parametrize("decision", ["APPROVED", "REJECTED"])
def test_a_settlement_whose_verdict_started_no_execution_is_resumed_by_the_next_owner(
    in_review: Calls, step_functions: StepFunctions, later: Later, decision: str
) -> None:
    step_functions.failing["start_execution"] = throttled("StartExecution")
    in_review.decided(signed(decision=decision))
    step_functions.failing.clear()
    later(seconds=30)

    in_review.recover()

    # Epoch 1 belongs to the execution of the webhook, which may have begun a reversal.
    assert step_functions.started == [resumed(2)]
    assert not in_review("ClaimKey", execution=f"{KEY}-r2")["replayed"]


@pytest.mark.parametrize("loses_answers", [False, True])
@pytest.mark.parametrize("failure", [throttled("StartExecution"), unanswered(), Died()])
@pytest.mark.parametrize(("minutes", "names"), [(1, ["r1", "r2"]), (15, ["compensate-1", "compensate-2"])])
def test_a_settlement_whose_start_failed_or_was_lost_is_found_again(
    calls: Calls,
    *,
    step_functions: StepFunctions,
    later: Later,
    counted: Counted,
    failure: BaseException,
    loses_answers: bool,
    minutes: int,
    names: list[str],
) -> None:
    held(calls)
    later(minutes=minutes)
    step_functions.failing["start_execution"] = failure
    step_functions.loses_answers = loses_answers
    counted()
    try:
        calls.recover()
        assert counted() == run(NotRecovered=1, OldestInFlightSeconds=minutes * 60)
    except Died:
        counted()
    step_functions.failing.clear()

    with calls.writes_nothing():
        calls.recover()
    later(minutes=minutes, seconds=60)
    calls.recover()

    # A reversal is known to run if it was started after all; any other execution is not looked up.
    expected = names[:1] if loses_answers and minutes == 15 else names[not loses_answers :]
    assert step_functions.names == [f"{KEY}-{name}" for name in expected]
    assert calls.row()["owner"] == f"{KEY}-{expected[-1]}"
    assert calls.row()["owner_epoch"] == int(expected[-1][-1])


@pytest.mark.parametrize("method", ["read", "update", "start_execution"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("put", "minutes", "name"),
    [(held, 1, "r1"), (held, 15, "compensate-1"), (reversing, 1, "compensate-1"), (limbo, 1, "compensate-1")],
)
def test_of_two_interleaved_runs_one_starts(
    calls: Calls,
    *,
    step_functions: StepFunctions,
    later: Later,
    meanwhile: Meanwhile,
    method: str,
    after: bool,
    put: Callable[[Calls], None],
    minutes: int,
    name: str,
) -> None:
    put(calls)
    later(minutes=minutes)
    owner = step_functions if method == "start_execution" else _dependencies.store
    meanwhile(owner, method, lambda: quietly(calls.recover), after=after)

    quietly(calls.recover)

    assert step_functions.names == [f"{KEY}-{name}"]
    assert (calls.row()["owner_epoch"], calls.row()["owner"]) == (1, f"{KEY}-{name}")


@pytest.mark.parametrize(
    "since",
    [
        {"gsi1sk": "2026-11-20T12:20:00.000Z"},
        *({"status": status} for status in (Status.SETTLED, Status.REJECTED, Status.COMPENSATED)),
        {"status": "COMPENSATING", "gsi1sk": "2026-11-20T12:15:00.124Z"},
        {"status": "LIMBO"},
    ],
    ids=str,
)
def test_an_index_that_lags_behind_decides_nothing(
    calls: Calls,
    *,
    step_functions: StepFunctions,
    later: Later,
    counted: Counted,
    monkeypatch: pytest.MonkeyPatch,
    since: dict[str, Any],
) -> None:
    held(calls)
    later(minutes=15)
    freeze_index(calls, monkeypatch)
    calls.alter(**since)
    counted()

    with calls.writes_nothing():
        calls.recover()

    assert (step_functions.called, counted()) == ([], run())


def test_a_listed_key_without_a_row_is_skipped(
    calls: Calls,
    step_functions: StepFunctions,
    later: Later,
    counted: Counted,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls.fall()
    calls("ClaimKey", WIRE | {"key": "order-2026-000102"})
    monkeypatch.setattr(_dependencies.store, "read", lambda key: None)
    later(minutes=15)
    counted()

    with calls.writes_nothing():
        calls.recover()

    assert (step_functions.called, counted()) == ([], run(LimboOpen=1, OldestLimboSeconds=900))


@pytest.mark.parametrize("end", [None, *ENDS])
def test_an_expired_settlement_is_left_to_its_compensation_while_that_runs(
    calls: Calls, step_functions: StepFunctions, later: Later, end: str | None
) -> None:
    """The settlement is PROCESSING until that execution begins, which Lambda may delay for minutes."""
    held(calls)
    later(minutes=15)
    calls.recover()
    if end:
        step_functions.end(execution(f"{KEY}-compensate-1"), end)
    later(minutes=16)

    calls.recover()
    calls.recover_now(KEY)

    expected = ["compensate-1", *(["compensate-2"] if end else [])]
    assert step_functions.names == [f"{KEY}-{name}" for name in expected]
    assert calls.row()["gsi1sk"] > "2026-11-20T12:16:00.123Z"


# Reversals


@pytest.mark.parametrize("end", [None, *ENDS])
def test_a_reversal_without_a_running_execution_gets_a_new_one(
    calls: Calls, step_functions: StepFunctions, later: Later, counted: Counted, end: str | None
) -> None:
    reversing(calls)
    if end:
        step_functions.add(FIRST, end)
    step_functions.add(execution("compensation-1", machine="SettlementStandard"))  # it runs no reversal
    before = calls.row()
    later(seconds=30)
    counted()

    calls.recover()

    assert (step_functions.described, step_functions.started) == ([FIRST], [compensated()])
    taken_over = {"owner_epoch": 1, "owner": f"{KEY}-compensate-1", "gsi1sk": "2026-11-20T12:01:30.123Z"}
    assert calls.row() == before | taken_over
    assert counted() == run(RecoveredByCompensation=1, Recoveries=1, OldestInFlightSeconds=30)


def test_a_reversal_with_a_running_execution_is_looked_at_later_and_found_once_that_has_died(
    calls: Calls, step_functions: StepFunctions, later: Later, counted: Counted
) -> None:
    reversing(calls)
    step_functions.add(FIRST)
    before = calls.row()
    later(seconds=30)
    counted()

    calls.recover()

    assert (step_functions.started, counted()) == ([], run(OldestInFlightSeconds=30))
    assert calls.row() == before | {"gsi1sk": "2026-11-20T12:01:30.123Z"}
    step_functions.end(FIRST, "ABORTED")
    later(seconds=90)
    calls.recover()
    assert step_functions.started == [compensated()]


@pytest.mark.parametrize("failure", [throttled("DescribeExecution"), unanswered()])
@pytest.mark.parametrize(
    ("put", "deferred"), [(reversing, {"gsi1sk": "2026-11-20T12:01:30.123Z"}), (limbo, {})]
)
def test_a_settlement_whose_execution_cannot_be_described_is_looked_at_later(
    calls: Calls,
    *,
    step_functions: StepFunctions,
    later: Later,
    counted: Counted,
    put: Callable[[Calls], None],
    deferred: dict[str, str],
    failure: Exception,
) -> None:
    put(calls)
    before = calls.row()
    later(seconds=30)
    step_functions.failing["describe_execution"] = failure
    counted()

    calls.recover()
    metrics = counted()
    assert (metrics["NotRecovered"], metrics["Recoveries"], step_functions.started) == (1, 0, [])
    assert calls.row() == before | deferred
    step_functions.failing.clear()
    later(seconds=90)
    calls.recover()

    assert step_functions.started == [compensated()]


@pytest.mark.parametrize("driven", [True, False])
def test_a_settlement_that_enters_limbo_while_recovery_looks_at_it_keeps_its_place_there(
    calls: Calls, step_functions: StepFunctions, later: Later, meanwhile: Meanwhile, driven: bool
) -> None:
    reversing(calls)
    if driven:
        step_functions.add(FIRST)
    else:
        step_functions.failing["describe_execution"] = throttled("DescribeExecution")
    later(seconds=30)
    meanwhile(_dependencies.store, "update", lambda: calls.alter(status="LIMBO", gsi1pk="LIMBO"))

    quietly(calls.recover)

    row = calls.row()
    assert (row["gsi1pk"], row["gsi1sk"]) == ("LIMBO", "2026-11-20T12:00:30.123Z")
    assert step_functions.started == []


# LIMBO


@pytest.mark.parametrize("waits", [True, False])
def test_a_case_of_limbo_without_a_waiting_execution_alerts_again(
    calls: Calls, step_functions: StepFunctions, later: Later, counted: Counted, waits: bool
) -> None:
    limbo(calls)
    if waits:
        calls("AwaitResolution", token="AQC", execution_arn=EXECUTION_ARN)
    before = calls.row()
    later(seconds=90)
    counted()

    calls.recover()

    assert step_functions.started == [compensated()]
    taken_over = {"owner_epoch": 1, "owner": f"{KEY}-compensate-1", "recover_at": "2026-11-20T12:02:30.123Z"}
    assert calls.row() == before | taken_over
    assert counted() == run(RecoveredByAlert=1, Recoveries=1, LimboOpen=1, OldestLimboSeconds=90)
    found = calls.begin(step_functions.started[0][2])
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
def test_a_case_of_limbo_with_a_running_execution_is_counted_and_left_alone(
    calls: Calls,
    *,
    step_functions: StepFunctions,
    later: Later,
    counted: Counted,
    running: str,
    waiting: str | None,
) -> None:
    limbo(calls)
    if waiting:
        calls.alter(waiting={"token": "AQC", "execution": waiting})
    step_functions.add(running)
    later(seconds=90)
    counted()

    with calls.writes_nothing():
        calls.recover()

    assert (step_functions.started, counted()) == ([], run(LimboOpen=1, OldestLimboSeconds=90))


@pytest.mark.parametrize(
    ("machine", "described"),
    [("Compensation", True), ("CompensationOfBefore", False), ("Compensatio", False)],
)
def test_an_execution_of_a_deleted_machine_is_not_asked_about(
    calls: Calls, step_functions: StepFunctions, later: Later, machine: str, described: bool
) -> None:
    limbo(calls)
    waiting = execution("one-that-waits", machine)
    calls.alter(waiting={"token": "AQC", "execution": waiting})
    later(seconds=30)

    calls.recover()

    assert step_functions.described == [FIRST, *([waiting] if described else [])]


def test_a_case_of_limbo_whose_alert_was_started_is_not_looked_at_before_its_time(
    calls: Calls, step_functions: StepFunctions, later: Later
) -> None:
    limbo(calls)
    later(seconds=30)
    calls.recover()
    step_functions.end(execution(f"{KEY}-compensate-1"))
    step_functions.described.clear()
    later(seconds=89, milliseconds=999)
    with calls.writes_nothing():
        calls.recover()
    assert step_functions.described == []
    later(seconds=90)

    calls.recover()

    assert step_functions.names == [f"{KEY}-compensate-1", f"{KEY}-compensate-2"]
    assert calls.row()["recover_at"] == "2026-11-20T12:03:30.123Z"


def test_a_decided_case_is_left_to_the_execution_of_the_decision_and_resumed_if_that_has_died(
    calls: Calls, step_functions: StepFunctions, later: Later, counted: Counted
) -> None:
    limbo(calls)
    calls("AwaitResolution", token="AQC", execution_arn=EXECUTION_ARN)
    step_functions.add(FIRST)  # the one that waited is not asked about
    step_functions.add(execution("the-second"))
    calls.resolve("write-off", execution="the-second")
    later(seconds=30)
    calls.recover()
    assert (step_functions.described, step_functions.started) == ([execution("the-second")], [])
    step_functions.end(execution("the-second"))
    later(seconds=90)
    counted()

    calls.recover()

    assert step_functions.started == [compensated()]
    assert counted() == run(RecoveredByCompensation=1, Recoveries=1, OldestInFlightSeconds=90)


def test_a_reversal_that_gets_stuck_again_after_a_decision_alerts_at_once(
    calls: Calls, step_functions: StepFunctions, later: Later
) -> None:
    limbo(calls)
    later(hours=1)
    calls.recover()
    calls.limbo(calls.begin(calls.resolve("retry")))

    calls.recover()

    assert step_functions.names == [f"{KEY}-compensate-1", f"{KEY}-compensate-2"]


def test_a_settlement_that_has_left_limbo_is_not_alerted_about_by_an_index_that_lags(
    calls: Calls,
    step_functions: StepFunctions,
    later: Later,
    counted: Counted,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limbo(calls)
    freeze_index(calls, monkeypatch)
    calls.alter(status="COMPENSATING", gsi1pk=keys.in_flight_partition(2))
    later(hours=1)
    counted()

    with calls.writes_nothing():
        calls.recover()

    assert (step_functions.called, counted()) == ([], run(LimboOpen=1, OldestLimboSeconds=3600))
