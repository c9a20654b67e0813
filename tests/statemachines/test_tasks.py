"""What every Task must have: a timeout, one retry of what may pass, a catch for everything else."""

import inspect

import pytest

from settlement import errors, rows, steps
from settlement.errors import IdempotencyConflict, InvalidRequest, Refusal, SettlementError
from settlement.request import Settlement
from settlement.rows import Row
from settlement.status import Status, Step
from settlement.writes import Standing, Write
from tests.conftest import NOW
from tests.statemachines.definitions import DEFINITIONS, TASKS, task

CLASSES = {
    name: kind
    for name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, SettlementError)
}
REFUSALS = {name for name, kind in CLASSES.items() if issubclass(kind, Refusal)} - {"Refusal"}
TRANSIENT = CLASSES.keys() - REFUSALS - {"Refusal", "SettlementError"}

LAMBDA_TRANSIENT = {
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.TooManyRequestsException",
    "Lambda.Unknown",
    "Sandbox.Timedout",
    "Runtime.ExitError",
    "States.Timeout",
}
"""What Lambda and Step Functions call an attempt whose outcome is unknown or that never began."""

each_task = pytest.mark.parametrize(("machine", "name"), TASKS)


@each_task
def test_a_task_invokes_a_function_and_bounds_its_time(machine: str, name: str) -> None:
    state = task(machine, name)

    assert state["Resource"] == "arn:aws:states:::lambda:invoke"
    assert isinstance(state["TimeoutSeconds"], int)
    assert state["TimeoutSeconds"] > 0


def retried(machine: str, name: str) -> set[str]:
    return {error for retry in task(machine, name)["Retry"] for error in retry["ErrorEquals"]}


@each_task
def test_a_retry_is_jittered_and_bounded(machine: str, name: str) -> None:
    for retry in task(machine, name)["Retry"]:
        assert retry["JitterStrategy"] == "FULL"
        assert 0 < retry["MaxAttempts"] < 10
        assert 0 < retry["IntervalSeconds"] <= retry["MaxDelaySeconds"]
        assert retry["BackoffRate"] > 1


@each_task
def test_no_refusal_is_ever_retried(machine: str, name: str) -> None:
    """A refusal is final, and States.ALL or States.TaskFailed would retry it under another name."""
    assert retried(machine, name) <= TRANSIENT | LAMBDA_TRANSIENT


@each_task
def test_an_attempt_with_an_unknown_outcome_is_retried(machine: str, name: str) -> None:
    assert retried(machine, name) >= {"StoreUnavailable"} | LAMBDA_TRANSIENT


@each_task
def test_whatever_is_left_ends_in_settlement_stalled(machine: str, name: str) -> None:
    """Not green and not refused: the row is in flight, and the error is kept beside the input."""
    last = task(machine, name)["Catch"][-1]

    assert last == {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "SettlementStalled"}


@each_task
def test_only_final_answers_are_caught_by_name(machine: str, name: str) -> None:
    """An attempt that may still commit is no refusal, whatever is done about it."""
    caught = {error for entry in task(machine, name)["Catch"][:-1] for error in entry["ErrorEquals"]}

    assert caught <= REFUSALS


@each_task
def test_an_error_is_caught_in_one_place(machine: str, name: str) -> None:
    caught = [error for entry in task(machine, name)["Catch"] for error in entry["ErrorEquals"]]

    assert sorted(caught) == sorted(set(caught))


def test_store_unavailable_is_no_refusal() -> None:
    assert "StoreUnavailable" in TRANSIENT
    assert {"InsufficientFunds", "StepFenced", "IdempotencyConflict"} <= REFUSALS


def test_every_error_that_a_machine_names_exists() -> None:
    named = {
        error
        for machine, name in TASKS
        for entry in (*task(machine, name)["Retry"], *task(machine, name)["Catch"])
        for error in entry["ErrorEquals"]
    }

    assert named <= REFUSALS | TRANSIENT | LAMBDA_TRANSIENT | {"States.ALL"}


def test_a_hold_is_rejected_for_exactly_the_refusals_that_it_raises(settlement: Settlement) -> None:
    """All but the conflict: then the row is another request's, and not this execution's to reject."""
    refusals = {type(refusal).__name__ for refusal in hold_refusals(settlement)}

    rejected, _ = DEFINITIONS["settlement"]["States"]["HoldFunds"]["Catch"]

    assert set(rejected["ErrorEquals"]) == refusals - {"IdempotencyConflict"}
    assert rejected["Next"] == "RejectSettlement"


def test_a_request_is_refused_for_exactly_what_claiming_its_key_raises() -> None:
    refused, _ = DEFINITIONS["settlement"]["States"]["ClaimKey"]["Catch"]

    assert set(refused["ErrorEquals"]) == {InvalidRequest.__name__, IdempotencyConflict.__name__}
    assert refused["Next"] == "RequestRefused"


def hold_refusals(settlement: Settlement) -> list[SettlementError]:
    """The answer to each row that may stand in the way of each write of a hold."""
    posting = steps.hold(settlement, NOW)
    assert posting.balance is not None
    own = {"request_hash": settlement.request_hash, "deadline_at": rows.timestamp(NOW)}
    in_the_way: list[tuple[Write, Row | None]] = [
        (posting.entry, own),
        (posting.entry, own | {"request_hash": "another"}),
        (posting.settlement, None),
        (posting.settlement, own | {"request_hash": "another"}),
        *((posting.settlement, own | {"status": status}) for status in Status),
        *((posting.settlement, own | {"status": status, "steps": set(Step)}) for status in Status),
        (posting.balance, None),
        (posting.balance, {"currency": "USD", "available": 0}),
        (posting.balance, {"currency": "EUR", "available": 0}),
        (posting.balance, {"currency": "EUR", "available": 9_999, "limbo_keys": {"order-2026-000100"}}),
    ]
    answers = [write.refusal(row) for write, row in in_the_way]
    return [answer for answer in answers if not isinstance(answer, Standing)]
