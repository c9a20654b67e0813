"""Tests the machine that reserves a payout and follows its first minutes."""

import json
from typing import Any

import pytest

from infra.payouts import OPTIONAL
from settlement.core.model import errors
from settlement.core.model.errors import Refusal
from settlement.payouts.payout import Status
from tests.statemachines.definitions import ALL
from tests.statemachines.test_budget import waits
from tests.world.definitions import named
from tests.world.interpreter import Execution, Machines, TaskFailed

MACHINE = ALL["pay_out"]
STATES = MACHINE["States"]
TASKS = {name: state for name, state in STATES.items() if state["Type"] == "Task"}
PAYOUT = {"key": "payout-2026-000101", "account": "alice", "amount": "48.20", "currency": "EUR"}
GIVEN = {"payout": {**PAYOUT, "destination": "landlord"}}
KEY = {"key": PAYOUT["key"]}
PAUSES = [5, 10, 20, 40]
UNSENT = {Status.RESERVED, Status.SENDING, Status.UNKNOWN}

each_task = pytest.mark.parametrize("name", TASKS)


class Functions:
    """Functions with scripted answers; the last one repeats. An answer that is not a status is raised."""

    def __init__(self, looks: list[str], reserved: str = "RESERVED") -> None:
        self.looks, self.reserved = looks, reserved
        self.called: list[tuple[str, Any]] = []
        self.waited: list[int] = []

    def answer(self, function: str, payload: Any) -> Any:
        self.called.append((function, payload))
        told = self.reserved
        if function == "FollowPayouts":
            told = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if told not in list(Status):
            raise TaskFailed(told, "told")
        return {**KEY, "status": told, "said": "accepted"}

    def run(self, given: Any) -> Execution:
        machines = Machines({"pay_out": named(json.dumps(MACHINE))}, frozenset(), self.answer)
        execution = machines.start("pay_out", given, "one").run()
        while execution.is_waiting:
            self.waited.append(execution.wait_seconds)
            execution.time_out()
            execution.run()
        return execution

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.called]


def test_the_machine_reserves_and_looks_once_at_a_ready_bank() -> None:
    functions = Functions(["ACCEPTED"])

    ended = functions.run(GIVEN)

    assert functions.called == [("ReservePayout", GIVEN), ("FollowPayouts", KEY)]
    assert (ended.status, ended.data) == ("SUCCEEDED", {**KEY, "status": "ACCEPTED"})


def test_a_start_with_a_key_alone_reserves_nothing() -> None:
    functions = Functions(["PAID"])

    assert functions.run(KEY).data == {**KEY, "status": "PAID"}
    assert functions.called == [("FollowPayouts", KEY)]


@pytest.mark.parametrize("status", Status)
def test_only_an_unanswered_payout_is_looked_at_again(status: Status) -> None:
    functions = Functions([status])

    ended = functions.run(KEY)

    assert ended.data == {**KEY, "status": status}
    assert functions.waited == (PAUSES if status in UNSENT else [])
    assert len(functions.called) == 1 + len(functions.waited)


def test_the_machine_stops_asking_after_a_later_answer() -> None:
    functions = Functions(["SENDING", "UNKNOWN", "ACCEPTED"])

    assert functions.run(KEY).data == {**KEY, "status": "ACCEPTED"}
    assert functions.waited == PAUSES[:2]


def test_pauses_and_exchanges_take_less_than_three_minutes() -> None:
    """An exchange with the bank ends within 15 s."""
    assert sum(PAUSES) + 15 * (1 + len(PAUSES)) < 180


REFUSALS = {
    "ReservePayout": {
        *("InvalidRequest", "IdempotencyConflict", "DestinationRefused", "PayoutRefused"),
        *("InsufficientFunds", "AccountNotFound", "AccountInLimbo", "AccountFrozen", "AccountClosed"),
        "CurrencyMismatch",
    },
    "FollowPayouts": {"InvalidRequest", "PayoutNotFound"},
}


@pytest.mark.parametrize(
    ("function", "error"), [(name, one) for name, every in REFUSALS.items() for one in sorted(every)]
)
def test_a_refusal_fails_the_execution_by_name_without_retry(function: str, error: str) -> None:
    assert issubclass(getattr(errors, error), Refusal)
    functions = Functions([error], error) if function == "ReservePayout" else Functions([error])

    ended = functions.run(GIVEN)

    assert (ended.status, ended.error) == ("FAILED", {"Error": error, "Cause": "told"})
    assert functions.names.count(function) == 1


@pytest.mark.parametrize(("function", "calls"), [("ReservePayout", 3), ("FollowPayouts", 3)])
@pytest.mark.parametrize("error", ["StoreUnavailable", "States.Timeout", "FunctionFailed"])
def test_an_unclear_error_is_retried_and_then_stalls(function: str, calls: int, error: str) -> None:
    functions = Functions([error], error if function == "ReservePayout" else "RESERVED")

    ended = functions.run(GIVEN)

    assert (ended.status, ended.error["Error"]) == ("FAILED", "PayoutStalled")
    assert error in ended.error["Cause"]
    assert functions.names.count(function) == calls


def test_a_fenced_look_is_repeated_after_each_pause() -> None:
    functions = Functions([*["PayoutFenced"] * 4, "RESERVED"])

    assert functions.run(KEY).data == {**KEY, "status": "RESERVED"}
    assert functions.names == ["FollowPayouts"] * 5
    assert functions.waited == PAUSES


def test_a_payout_that_is_always_fenced_stalls() -> None:
    ended = Functions(["PayoutFenced"]).run(KEY)

    assert (ended.status, ended.error["Error"]) == ("FAILED", "PayoutStalled")
    assert "PayoutFenced" in ended.error["Cause"]


def test_each_task_catches_its_listed_refusals_and_retries_none() -> None:
    final = {name: {*state["Retry"][0]["ErrorEquals"]} for name, state in TASKS.items()}
    caught = {name: {*state["Catch"][0]["ErrorEquals"]} for name, state in TASKS.items()}

    assert caught == REFUSALS
    assert final == REFUSALS | {"FollowPayouts": {*REFUSALS["FollowPayouts"], "PayoutFenced"}}
    assert all(state["Retry"][0]["MaxAttempts"] == 0 for state in TASKS.values())


@each_task
def test_a_task_has_its_functions_name_timeout_and_stall_catch(name: str) -> None:
    state = TASKS[name]

    assert state["Parameters"]["FunctionName"] == f"${{{name}}}"
    assert TASKS.keys() < OPTIONAL.keys()
    assert state["TimeoutSeconds"] > (OPTIONAL[name].seconds or 8)
    assert state["Catch"][-1] == {
        "ErrorEquals": ["States.ALL"],
        "ResultPath": "$.error",
        "Next": "PayoutStalled",
    }


@each_task
def test_each_retry_of_a_task_has_jitter_and_short_waits(name: str) -> None:
    for retry in TASKS[name]["Retry"][1:]:
        assert retry["JitterStrategy"] == "FULL"
        assert 0 < sum(waits(retry)) <= 9


def test_a_status_decides_only_whether_the_machine_looks_again() -> None:
    """The database compares statuses, as conditions on the row."""
    compared = [
        (name, choice["Next"])
        for name, state in STATES.items()
        for choice in state.get("Choices", ())
        if "StringEquals" in choice
    ]

    assert {*compared} == {("IsUnderWay", "PauseBetweenLooks")}
    assert len(compared) == len(UNSENT)
    assert {state["Type"] for state in STATES.values()} == {"Task", "Choice", "Pass", "Wait", "Fail"}
