"""The execution that runs a reversal becomes its owner by the same write, and recovery asks only about it."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from handlers import _dependencies
from settlement.model.errors import InvalidRequest
from settlement.model.status import Status
from tests.handlers.calls import (
    EXECUTION_ARN,
    KEY,
    ORDER,
    OTHER_CONTENT,
    REJECTED_BY_KYC,
    STALLED_ORDER,
    WIRE,
    Calls,
)
from tests.handlers.stand_ins import Starts, execution, throttled
from tests.handlers.test_recover_stalled_races import quietly, stop_at

Later = Callable[..., None]

BARE: dict[str, Any] = {"settlement": WIRE}
SECOND = "the-second"
"""The execution that comes after `compensation-1`."""


def reversing(calls: Calls) -> None:
    calls.after("HoldFunds")
    calls.begin(error=REJECTED_BY_KYC)


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(BARE, id="with nothing"),
        pytest.param(BARE | {"case": 1, "error": {"Error": "StepFenced"}}, id="back from a fence"),
        pytest.param(BARE | {"case": 1, "put": {"FailedEntryCount": 0}}, id="back from a decision"),
    ],
)
def test_an_execution_that_resumes_a_reversal_owns_it_and_is_the_one_that_recovery_describes(
    calls: Calls, starts: Starts, later: Later, state: dict[str, Any]
) -> None:
    reversing(calls)
    before = calls.row()

    calls.begin_as(SECOND, state)

    assert calls.row() == before | {"owner": SECOND}
    starts.running = {execution(SECOND)}
    later(seconds=30)
    calls.recover()
    assert (starts.described, starts.made) == ([execution(SECOND)], [])


@pytest.mark.parametrize(
    ("state", "order"), [("CollectFee", ORDER), ("HoldFunds", STALLED_ORDER), ("ReleaseFunds", STALLED_ORDER)]
)
def test_an_execution_with_a_persons_order_owns_the_settlement_that_it_reverses(
    calls: Calls, starts: Starts, later: Later, state: str, order: dict[str, str]
) -> None:
    calls.after(state)

    calls.begin_as(SECOND, BARE | {"reversal": order})

    assert calls.row()["owner"] == SECOND
    starts.running = {execution(SECOND)}
    later(seconds=30)
    calls.recover()
    assert (starts.described, starts.made) == ([execution(SECOND)], [])


def test_an_order_whose_execution_died_before_it_became_the_owner_is_recovered(
    calls: Calls, starts: Starts, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.after("CollectFee")

    def dies(write: object) -> None:
        raise throttled("UpdateItem")

    with monkeypatch.context() as broken:
        broken.setattr(_dependencies.store, "update", dies)
        with pytest.raises(Exception, match="ThrottlingException"):
            calls.begin_as(SECOND, BARE | {"reversal": ORDER})
    assert (calls.row()["status"], calls.row()["owner"]) == ("COMPENSATING", "execution-1")
    later(seconds=30)

    calls.recover()

    assert starts.made == [("Compensation", f"{KEY}-compensate-1", BARE)]
    calls.unwind(calls.begin_as(f"{KEY}-compensate-1", starts.made[0][2]))
    assert calls.row()["status"] == "COMPENSATED"


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.COMPENSATING])
@pytest.mark.parametrize("more", [{"error": REJECTED_BY_KYC, "owner": SECOND}, {"case": 1}])
def test_a_settlement_that_is_not_being_reversed_keeps_its_owner(
    calls: Calls, status: Status, more: dict[str, Any]
) -> None:
    calls.after("HoldFunds")
    calls.alter(status=status, resolutions=0)

    refused = status is Status.PROCESSING and "error" not in more
    with calls.writes_nothing(), pytest.raises(InvalidRequest) if refused else nullcontext():
        calls.begin_as(SECOND, BARE | more)


@pytest.mark.parametrize("other", OTHER_CONTENT)
def test_other_content_does_not_change_the_owner(calls: Calls, other: dict[str, str]) -> None:
    reversing(calls)

    with calls.writes_nothing(), pytest.raises(Exception, match="other content"):
        calls.begin_as(SECOND, {"settlement": other})


@pytest.mark.parametrize("decision", ["retry", "write-off"])
def test_the_execution_that_carries_out_a_decision_becomes_the_owner_and_the_waiting_one_does_not(
    calls: Calls, starts: Starts, later: Later, decision: str
) -> None:
    calls.fall("release")
    calls("AwaitResolution", token="AQC", execution_arn=EXECUTION_ARN)
    starts.running = {EXECUTION_ARN, execution("compensation-1")}

    calls.resolve(decision, execution=SECOND)

    later(seconds=30)
    calls.recover()
    assert starts.described == [execution(SECOND)]
    assert starts.made == [("Compensation", f"{KEY}-compensate-1", BARE)]


def test_a_running_execution_of_a_decision_is_left_alone(calls: Calls, starts: Starts, later: Later) -> None:
    calls.fall("release")
    calls.resolve("retry", execution=SECOND)
    starts.running = {execution(SECOND)}
    later(seconds=30)

    calls.recover()

    assert (starts.made, calls.row()["owner"]) == ([], SECOND)


def test_a_reversal_that_gets_stuck_again_after_a_decision_alerts_at_once(
    calls: Calls, starts: Starts, later: Later
) -> None:
    calls.fall("release")
    later(hours=1)
    calls.recover()
    assert calls.row()["recover_at"] > "2026-11-20T13:00"
    calls.limbo(calls.begin(calls.resolve("retry")))

    calls.recover()

    assert starts.names == [f"{KEY}-compensate-1", f"{KEY}-compensate-2"]


@pytest.mark.parametrize(
    ("machine", "recovered"), [("Compensation", False), ("CompensationOfBefore", True), ("Compensatio", True)]
)
def test_an_execution_of_a_deleted_machine_does_not_count_as_waiting(
    calls: Calls, starts: Starts, later: Later, machine: str, recovered: bool
) -> None:
    calls.fall("release")
    waiting = execution("one-that-waits", machine)
    calls.alter(waiting={"token": "AQC", "execution": waiting})
    starts.running = {waiting}
    later(seconds=30)

    calls.recover()

    assert (bool(starts.made), waiting in starts.described) == (recovered, not recovered)


@pytest.mark.parametrize("driven", [True, False])
def test_a_settlement_that_enters_limbo_while_recovery_looks_at_it_keeps_its_place_there(
    calls: Calls, starts: Starts, later: Later, monkeypatch: pytest.MonkeyPatch, driven: bool
) -> None:
    reversing(calls)
    starts.running = {execution("compensation-1")} if driven else set()
    starts.not_described = None if driven else throttled("DescribeExecution")
    later(seconds=30)
    stop_at(
        monkeypatch,
        _dependencies.store,
        "update",
        lambda: calls.alter(status="LIMBO", gsi1pk="LIMBO"),
        after=False,
    )

    quietly(calls.recover)

    row = calls.row()
    assert (row["gsi1pk"], row["gsi1sk"], starts.made) == ("LIMBO", "2026-11-20T12:00:30.123Z", [])


def test_a_review_that_begins_while_a_person_recovers_the_settlement_is_left_to_its_end(
    calls: Calls, starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.after("HoldFunds")
    stop_at(monkeypatch, _dependencies.store, "update", lambda: calls.alter(review="ver_1"), after=False)

    answer = calls.recover_now()

    assert (answer["action"], starts.asked, calls.row()["owner"]) == ("none", 0, "execution-1")
    assert calls.row()["owner_epoch"] == 0
