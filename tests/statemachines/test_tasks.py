"""The duties of every Task: a bound on its time, a retry of transient errors, a catch of all others."""

import inspect

import pytest

from settlement.model import errors
from settlement.model.errors import IdempotencyConflict, InvalidRequest, Refusal, SettlementError
from settlement.model.status import Step
from tests.statemachines.definitions import (
    INVOCATIONS,
    LAMBDA,
    PUTS,
    STARTS,
    TASKS,
    TOKEN,
    caught,
    retried,
    task,
)

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
    "Runtime.Unknown",
    "States.Timeout",
}
"""The errors of Lambda and Step Functions for an attempt that never began, or whose outcome is unknown."""

EVENTS_TRANSIENT = {
    "EventBridge.FailedEntry",
    "EventBridge.EventBridgeException",
    "EventBridge.SdkClientException",
    "EventBridge.InternalException",
    "EventBridge.ThrottlingException",
    "States.Timeout",
}
"""The same of EventBridge: an event that is put twice alerts once more, a lost one never alerts."""

START_TRANSIENT = {
    "StepFunctions.ThrottlingException",
    "StepFunctions.SdkClientException",
    "StepFunctions.SfnException",
    "StepFunctions.ExecutionLimitExceededException",
}
ALREADY_STARTED = {"StepFunctions.ExecutionAlreadyExistsException", "ExecutionAlreadyExists"}
"""The name of the error on AWS, and on the embedded AWS."""

LEFT_OVER = {
    ("compensation", "RefundFee"): "EnterLimbo",
    ("compensation", "ReclaimFunds"): "EnterLimbo",
    ("compensation", "VoidHold"): "EnterLimbo",
    ("compensation", "PageOnCall"): "PagerUnreachable",
    ("compensation", "AnnounceResolution"): "BeginCompensation",
    ("compensation", "AwaitResolution"): "PauseBetweenAlerts",
    ("compensation", "ResolveLimbo"): "PrepareAlert",
    ("settlement", "Compensate"): "CompensationUnfinished",
}
"""The target of an error that the state does not name. In all other states: the machine's own stall."""

NO_VERDICT = {("settlement", "VerifyKyc"): {"KycUnavailable"}}
"""The task that asks a third party, and its error without an answer. Nothing was written, so the provider is
asked again; after the last try the settlement is compensated.
"""

NOT_ASKED = {("settlement", "VerifyKyc"): {"KycCircuitOpen"}}
"""The error of that task if the third party was not asked: the settlement is compensated at once."""

STUCK = {"RefundFee": Step.FEE, "ReclaimFunds": Step.RELEASE, "VoidHold": Step.HOLD}
"""The step that each reversal reverses: the name under which EnterLimbo gets its error."""

STALLS = {"settlement": "SettlementStalled", "compensation": "CompensationStalled"}

each_task = pytest.mark.parametrize(("machine", "name"), TASKS)
each_invocation = pytest.mark.parametrize(("machine", "name"), INVOCATIONS)
each_put = pytest.mark.parametrize(("machine", "name"), PUTS)
each_start = pytest.mark.parametrize(("machine", "name"), STARTS)
WAITS = [("compensation", "AwaitResolution")]


@pytest.mark.parametrize(("machine", "name"), [each for each in TASKS if each not in WAITS + STARTS])
def test_a_task_bounds_its_time(machine: str, name: str) -> None:
    state = task(machine, name)

    assert isinstance(state["TimeoutSeconds"], int)
    assert state["TimeoutSeconds"] > 0


def test_every_task_waits_for_its_function_except_the_one_that_waits_for_a_person() -> None:
    calls = {each: task(*each)["Resource"] for each in INVOCATIONS}

    assert [each for each, resource in calls.items() if resource == TOKEN] == WAITS
    assert {resource for each, resource in calls.items() if each not in WAITS} == {LAMBDA}


@pytest.mark.parametrize(("machine", "name"), WAITS)
def test_the_wait_for_a_person_is_as_long_as_the_alert_says(machine: str, name: str) -> None:
    state = task(machine, name)

    assert state["TimeoutSecondsPath"] == "$.wait_seconds"
    assert not {"TimeoutSeconds", "HeartbeatSeconds", "HeartbeatSecondsPath"} & state.keys()


@each_start
def test_a_compensation_may_take_as_long_as_a_person_does(machine: str, name: str) -> None:
    """A Standard settlement waits for it; a bound would report a stall while a person is at work."""
    assert not [field for field in task(machine, name) if field.startswith(("Timeout", "Heartbeat"))]


@each_task
def test_a_retry_is_jittered_and_bounded(machine: str, name: str) -> None:
    for retry in task(machine, name)["Retry"]:
        assert retry["JitterStrategy"] == "FULL"
        assert 0 < retry["MaxAttempts"] < 10
        assert 0 < retry["IntervalSeconds"] <= retry["MaxDelaySeconds"]
        assert retry["BackoffRate"] > 1


@each_task
def test_an_error_is_retried_by_one_rule(machine: str, name: str) -> None:
    """Only the first rule that matches counts: a second one would have no effect."""
    named = [error for retry in task(machine, name)["Retry"] for error in retry["ErrorEquals"]]

    assert sorted(named) == sorted(set(named))


@each_invocation
def test_no_refusal_is_ever_retried(machine: str, name: str) -> None:
    """A refusal is final, and States.ALL or States.TaskFailed would retry it under another name."""
    assert retried(task(machine, name)) <= TRANSIENT | LAMBDA_TRANSIENT


@each_invocation
def test_an_attempt_with_an_unknown_outcome_is_retried(machine: str, name: str) -> None:
    """Except for the wait: its timeout means that the person has not decided yet."""
    waits = {"States.Timeout"} if (machine, name) in WAITS else set()

    unanswered = NO_VERDICT.get((machine, name), set())
    assert retried(task(machine, name)) == ({"StoreUnavailable"} | unanswered | LAMBDA_TRANSIENT) - waits


@each_put
def test_a_refused_event_is_put_again(machine: str, name: str) -> None:
    assert retried(task(machine, name)) == EVENTS_TRANSIENT


@each_start
def test_a_lost_start_is_repeated_and_a_failed_compensation_is_not(machine: str, name: str) -> None:
    """States.TaskFailed is a compensation that has failed: its name is taken."""
    assert retried(task(machine, name)) == START_TRANSIENT


@each_task
def test_the_last_catch_takes_every_other_error(machine: str, name: str) -> None:
    """The settlement neither succeeded nor was refused: it is in flight, and the error is kept."""
    target = LEFT_OVER.get((machine, name), STALLS[machine])
    last = task(machine, name)["Catch"][-1]

    where = f"$.stuck.{STUCK[name].value}" if name in STUCK else "$.error"
    where = "$.compensation" if name == "Compensate" else where
    assert last == {"ErrorEquals": ["States.ALL"], "ResultPath": where, "Next": target}


@pytest.mark.parametrize(("machine", "name"), WAITS)
def test_a_wait_that_ends_alerts_again_at_once_and_a_failed_one_in_its_time(machine: str, name: str) -> None:
    """A wait that cannot begin takes no time: an alert at once would alert without end."""
    pause = task(machine, caught(task(machine, name), "Lambda.ResourceNotFoundException"))

    assert caught(task(machine, name), "States.Timeout") == "PrepareAlert"
    assert pause["Type"] == "Wait"
    assert pause["SecondsPath"] == task(machine, name)["TimeoutSecondsPath"]
    assert pause["Next"] == "PrepareAlert"


@each_task
def test_only_the_last_catch_takes_errors_without_a_name(machine: str, name: str) -> None:
    named = {error for entry in task(machine, name)["Catch"][:-1] for error in entry["ErrorEquals"]}

    assert not {"States.ALL", "States.TaskFailed"} & named


@each_task
def test_only_final_answers_are_caught_by_name(machine: str, name: str) -> None:
    """An attempt that may still commit is no refusal."""
    named = {error for entry in task(machine, name)["Catch"][:-1] for error in entry["ErrorEquals"]}

    if (machine, name) in STARTS:
        assert named == ALREADY_STARTED
    else:
        over = {"States.Timeout"} if (machine, name) in WAITS else set()
        unanswered = NO_VERDICT.get((machine, name), set()) | NOT_ASKED.get((machine, name), set())
        assert named - REFUSALS == over | unanswered


@each_task
def test_an_error_is_caught_in_one_place(machine: str, name: str) -> None:
    errors_caught = [error for entry in task(machine, name)["Catch"] for error in entry["ErrorEquals"]]

    assert sorted(errors_caught) == sorted(set(errors_caught))


@each_start
def test_a_compensation_that_runs_already_is_reported_as_started(machine: str, name: str) -> None:
    state = task(machine, name)

    assert {caught(state, error) for error in ALREADY_STARTED} == {state["Next"]} == {"ReportOutcome"}


def test_an_unavailable_service_is_no_refusal() -> None:
    assert {"StoreUnavailable", "KycUnavailable", "KycCircuitOpen"} <= TRANSIENT
    assert {"InsufficientFunds", "StepFenced", "IdempotencyConflict"} <= REFUSALS


def test_every_error_that_a_machine_names_exists() -> None:
    named = {
        (machine, name, error)
        for machine, name in TASKS
        for entry in (*task(machine, name)["Retry"], *task(machine, name)["Catch"])
        for error in entry["ErrorEquals"]
    }
    others = dict.fromkeys(PUTS, EVENTS_TRANSIENT) | dict.fromkeys(STARTS, START_TRANSIENT | ALREADY_STARTED)
    of_functions = REFUSALS | TRANSIENT | LAMBDA_TRANSIENT

    for machine, name, error in named:
        assert error in others.get((machine, name), of_functions) | {"States.ALL"}, (machine, name)


def test_a_request_is_refused_for_exactly_what_claiming_its_key_raises() -> None:
    refused, _ = task("settlement", "ClaimKey")["Catch"]

    assert set(refused["ErrorEquals"]) == {InvalidRequest.__name__, IdempotencyConflict.__name__}
    assert refused["Next"] == "RequestRefused"
