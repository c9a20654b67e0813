"""Time: an Express execution gets 300 s for everything, and no function outlives its task."""

import json
from typing import Any

import pytest

from infra.settings import STAGES, Settings
from infra.state_machines import render_definition
from settlement.store import CLIENT_CONFIG
from tests.statemachines.definitions import DEFINITIONS, paths
from tests.support import templates

EXPRESS_SECONDS_MAX = 300
MARGIN_SECONDS = 60
"""For what is not counted: the transitions themselves, and the caller's own patience."""

BACKOFF_SECONDS_MAX = 1
"""The longest that botocore's standard mode waits before a second attempt."""

THROTTLED = "Lambda.TooManyRequestsException"


def settings(function_timeout_seconds: int) -> Settings:
    return Settings(stage="test", currencies=("EUR",), function_timeout_seconds=function_timeout_seconds)


def seconds_max(state: Any) -> float:
    """The longest that a state may take: every attempt times out, every wait is the longest.

    A throttled attempt is answered at once: it adds its wait, but no timeout.
    """
    if state["Type"] != "Task":
        return 0
    waits = [
        min(retry["IntervalSeconds"] * retry["BackoffRate"] ** attempt, retry["MaxDelaySeconds"])
        for retry in state["Retry"]
        for attempt in range(retry["MaxAttempts"])
    ]
    timeouts = 1 + sum(
        retry["MaxAttempts"] for retry in state["Retry"] if retry["ErrorEquals"] != [THROTTLED]
    )
    return float(state["TimeoutSeconds"] * timeouts + sum(waits))


@pytest.mark.parametrize("stage", ["dev", "prod"])
def test_all_attempts_of_any_path_fit_an_express_execution(stage: str) -> None:
    definition = json.loads(render_definition("settlement", STAGES[stage]))

    longest = max(sum(seconds_max(definition["States"][name]) for name in path) for path in paths(definition))

    assert longest <= EXPRESS_SECONDS_MAX - MARGIN_SECONDS


@pytest.mark.parametrize("stage", STAGES)
def test_no_function_outlives_its_task(stage: str) -> None:
    """Lambda runs on after the task's timeout, and would commit when nobody is listening."""
    functions = templates.resources("AWS::Lambda::Function", stage)
    for machine in templates.resources("AWS::StepFunctions::StateMachine", stage).values():
        properties = machine["Properties"]
        for name, state in json.loads(properties["DefinitionString"])["States"].items():
            if state["Type"] == "Task":
                function, _ = properties["DefinitionSubstitutions"][name]["Fn::GetAtt"]
                assert functions[function]["Properties"]["Timeout"] < state["TimeoutSeconds"], name


@pytest.mark.parametrize("machine", DEFINITIONS)
def test_a_function_that_may_outlive_its_task_is_refused_at_synth(machine: str) -> None:
    shortest = min(
        state["TimeoutSeconds"]
        for state in DEFINITIONS[machine]["States"].values()
        if state["Type"] == "Task"
    )

    render_definition(machine, settings(shortest - 1))
    for too_long in (shortest, shortest + 1):
        with pytest.raises(ValueError, match=r"TimeoutSeconds must exceed function_timeout_seconds"):
            render_definition(machine, settings(too_long))


@pytest.mark.parametrize("stage", STAGES)
def test_the_stages_patience_multiplies_every_timeout_and_changes_nothing_else(stage: str) -> None:
    rendered = json.loads(render_definition("settlement", STAGES[stage]))

    for state in rendered["States"].values():
        if state["Type"] == "Task":
            assert state["TimeoutSeconds"] % STAGES[stage].patience == 0
            state["TimeoutSeconds"] //= STAGES[stage].patience
    assert rendered == DEFINITIONS["settlement"]


@pytest.mark.parametrize("stage", STAGES)
def test_dynamodb_gives_up_before_its_function_does(stage: str) -> None:
    """So that a silent DynamoDB ends in StoreUnavailable, and not in a function that is cut off."""
    attempts = CLIENT_CONFIG.retries["total_max_attempts"]
    attempt_seconds = CLIENT_CONFIG.connect_timeout + CLIENT_CONFIG.read_timeout
    gives_up_after = attempts * attempt_seconds + (attempts - 1) * BACKOFF_SECONDS_MAX

    for function in templates.resources("AWS::Lambda::Function", stage).values():
        assert gives_up_after < function["Properties"]["Timeout"]
