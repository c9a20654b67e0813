"""Every Task bounds its time, retries transient errors, and catches all others."""

from copy import deepcopy
from typing import Any

import pytest

from tests.statemachines.definitions import INVOCATIONS, PUTS, STARTS, TASKS, WAITS, task

EVENTS_TRANSIENT = [
    "EventBridge.FailedEntry",
    "EventBridge.EventBridgeException",
    "EventBridge.SdkClientException",
    "EventBridge.InternalException",
    "EventBridge.ThrottlingException",
    "States.Timeout",
]
"""EventBridge's errors for a put that may have failed.

A repeated event alerts again; a lost one never alerts.
"""

START_TRANSIENT = [
    "StepFunctions.ThrottlingException",
    "StepFunctions.SdkClientException",
    "StepFunctions.SfnException",
    "StepFunctions.AWSStepFunctionsException",
    "StepFunctions.ExecutionLimitExceededException",
    "StepFunctions.ExecutionLimitExceeded",
]
"""Transient errors of a start; a failed compensation is not one."""

RETRIED: dict[tuple[str, str], list[list[str]]] = {
    **{each: [["Lambda.TooManyRequestsException"], ["States.ALL"]] for each in INVOCATIONS},
    **{each: [EVENTS_TRANSIENT] for each in PUTS},
    **{each: [START_TRANSIENT] for each in STARTS},
}
"""Errors that each Task retries, by rule, without functions' final errors."""

LEFT_OVER = {
    ("compensation", "PageOnCall"): ("PagerUnreachable", "$.error"),
    ("compensation", "AnnounceResolution"): ("BeginCompensation", "$.error"),
    ("compensation", "AwaitResolution"): ("PauseBetweenAlerts", "$.error"),
    ("compensation", "ResolveLimbo"): ("PrepareAlert", "$.error"),
    ("settlement", "Compensate"): ("CompensationUnfinished", "$.compensation"),
}
"""Target and result path of all other errors, for Tasks where these do not stall the machine."""

TRIES = {"settlement": [3, 2], "compensation": [9, 8]}
"""Each machine's retries of a function: for throttling, and for other transient errors."""

OTHER_TRIES = {"Compensate": [2], "PageOnCall": [9], "AnnounceResolution": [2], "AwaitResolution": [6, 6]}

STALLS = {"settlement": "SettlementStalled", "compensation": "CompensationStalled"}

each_task = pytest.mark.parametrize(("machine", "name"), TASKS)


def rules(machine: str, name: str) -> list[Any]:
    return [rule for rule in task(machine, name)["Retry"] if rule["MaxAttempts"] > 0]


@each_task
def test_every_task_but_a_start_has_a_timeout(machine: str, name: str) -> None:
    """A start with a timeout would report a stall while a person decides on its compensation.

    The wait for a decision is as long as the alert says.
    """
    bounds = {key: value for key, value in task(machine, name).items() if key.startswith(("Time", "Heart"))}

    if (machine, name) in WAITS:
        assert bounds == {"TimeoutSecondsPath": "$.wait_seconds"}
    elif (machine, name) in STARTS:
        assert bounds == {}
    else:
        assert bounds.keys() == {"TimeoutSeconds"}
        assert type(bounds["TimeoutSeconds"]) is int
        assert bounds["TimeoutSeconds"] > 0


@each_task
def test_a_task_retries_its_transient_errors_with_jitter_and_bounds(machine: str, name: str) -> None:
    found = rules(machine, name)

    assert [rule["ErrorEquals"] for rule in found] == RETRIED[machine, name]
    assert [rule["MaxAttempts"] for rule in found] == OTHER_TRIES.get(name, TRIES[machine])
    for rule in found:
        assert rule["JitterStrategy"] == "FULL"
        assert 0 < rule["IntervalSeconds"] <= rule["MaxDelaySeconds"]
        assert rule["BackoffRate"] > 1


@pytest.mark.parametrize("machine", TRIES)
def test_a_machines_functions_share_the_same_retry_rules(machine: str) -> None:
    """The definitions spell out each rule, so this finds accidental differences."""
    called = [name for found, name in INVOCATIONS if (found, name) not in WAITS and found == machine]
    paces = deepcopy({name: rules(machine, name) for name in called})
    if "VerifyKyc" in paces:  # it pauses less: see the budget of an unanswered payment
        paces["VerifyKyc"][-1]["MaxDelaySeconds"] = paces[called[0]][-1]["MaxDelaySeconds"]

    assert len(called) >= 6
    assert [name for name in called if paces[name] != paces[called[0]]] == []


def test_both_event_tasks_differ_only_in_their_retries() -> None:
    """An alert about LIMBO must arrive; a decision's announcement is less urgent."""
    patient, short = (rules(*each)[0] for each in PUTS)

    differ = {name for name in patient if patient[name] != short[name]}
    assert patient.keys() == short.keys()
    assert differ == {"IntervalSeconds", "MaxAttempts", "MaxDelaySeconds"}


@each_task
def test_the_last_catch_of_each_task_takes_every_error(machine: str, name: str) -> None:
    target, where = LEFT_OVER.get((machine, name), (STALLS[machine], "$.error"))
    last = task(machine, name)["Catch"][-1]

    assert last == {"ErrorEquals": ["States.ALL"], "ResultPath": where, "Next": target}


def test_a_failed_wait_pauses_before_the_next_alert() -> None:
    """A wait that cannot begin takes no time, so immediate alerts would never end."""
    pause = task("compensation", "PauseBetweenAlerts")

    assert (pause["Type"], pause["SecondsPath"], pause["Next"]) == ("Wait", "$.wait_seconds", "PrepareAlert")
