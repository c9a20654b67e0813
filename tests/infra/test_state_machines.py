"""The machines: one settlement twice, its compensation, and logs without payloads."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from infra.config import STAGES
from infra.grants import GRANTS
from infra.state_machines import STATE_MACHINES, render_definition
from tests.infra.iam import attribute
from tests.infra.machines import (
    MACHINES,
    SETTLEMENTS,
    bus,
    definition,
    each_machine,
    each_stage,
    logical_id,
    name,
    properties,
)
from tests.support import templates

START = {
    "SettlementExpress": "arn:aws:states:::states:startExecution",
    "SettlementStandard": "arn:aws:states:::states:startExecution.sync:2",
}
"""The integration with which each starts its compensation: an Express machine cannot wait for its end."""

EMBEDDED = [stage for stage, settings in STAGES.items() if settings.is_embedded]
ON_AWS = [stage for stage in STAGES if stage not in EMBEDDED]


def log_group(stage: str, machine: str) -> Any:
    (destination,) = properties(stage, machine)["LoggingConfiguration"]["Destinations"]
    group = attribute(destination["CloudWatchLogsLogGroup"]["LogGroupArn"])
    return templates.resources("AWS::Logs::LogGroup", stage)[group]["Properties"]


@each_stage
def test_there_is_one_machine_of_each_name_and_type(stage: str) -> None:
    machines = templates.resources("AWS::StepFunctions::StateMachine", stage)

    found = [(name(one), machine["Properties"]["StateMachineType"]) for one, machine in machines.items()]

    assert sorted(found) == sorted(MACHINES.items())


@each_stage
def test_both_settlement_machines_are_one_definition(stage: str) -> None:
    express, standard = (properties(stage, machine) for machine in SETTLEMENTS)

    for field in ("DefinitionString", "TracingConfiguration"):
        assert express[field] == standard[field]


@each_stage
def test_they_differ_in_nothing_but_how_they_start_a_compensation(stage: str) -> None:
    express, standard = (dict(properties(stage, one)["DefinitionSubstitutions"]) for one in SETTLEMENTS)

    assert express.pop("StartCompensation") == START["SettlementExpress"]
    assert standard.pop("StartCompensation") == START["SettlementStandard"]
    assert express == standard


@each_machine
def test_a_machine_runs_the_definition_of_its_file(stage: str, machine: str) -> None:
    file = "settlement" if machine in SETTLEMENTS else "compensation"

    assert properties(stage, machine)["DefinitionString"] == render_definition(file, STAGES[stage])


@each_machine
def test_every_execution_is_logged_but_no_payload_is(stage: str, machine: str) -> None:
    logging = properties(stage, machine)["LoggingConfiguration"]

    assert logging["Level"] == "ALL"
    assert logging["IncludeExecutionData"] is False


@each_machine
def test_logs_are_under_the_prefix_that_needs_no_resource_policy(stage: str, machine: str) -> None:
    """Under this prefix AWS needs no entry in the account's resource policy, which holds 5,120 characters."""
    group = log_group(stage, machine)

    assert group["LogGroupName"].startswith("/aws/vendedlogs/states/")
    assert stage in group["LogGroupName"]
    assert group["RetentionInDays"] == {"local": 1, "dev": 7, "prod": 365}[stage]


@each_stage
def test_the_machines_log_apart(stage: str) -> None:
    assert len({log_group(stage, machine)["LogGroupName"] for machine in MACHINES}) == len(MACHINES)


@each_machine
def test_executions_are_traced(stage: str, machine: str) -> None:
    assert properties(stage, machine)["TracingConfiguration"] == {"Enabled": True}


@each_machine
def test_every_placeholder_is_replaced_by_the_resource_of_its_name(stage: str, machine: str) -> None:
    found = properties(stage, machine)
    placeholders = set(re.findall(r"\$\{(.*?)\}", found["DefinitionString"]))
    others: dict[str, Any] = {
        "Compensation": {"Ref": logical_id(stage, "Compensation")},
        "EventBus": {"Ref": bus(stage)},
        "StartCompensation": START.get(machine),
    }

    substituted = dict(found["DefinitionSubstitutions"])

    assert placeholders == substituted.keys()
    for placeholder in placeholders & others.keys():
        assert substituted.pop(placeholder) == others[placeholder]
    for placeholder, value in substituted.items():
        assert name(attribute(value)) == placeholder


@each_stage
def test_every_function_is_behind_the_state_of_its_name(stage: str) -> None:
    states: Any = [state for machine in MACHINES for state in definition(stage, machine)["States"].items()]
    invoked = {
        (state_name, state["Parameters"]["FunctionName"])
        for state_name, state in states
        if ":lambda:invoke" in state.get("Resource", "")
    }

    assert invoked == {(state, f"${{{state}}}") for state in GRANTS}


@each_stage
def test_the_definition_in_the_template_is_json_that_a_reader_can_check(stage: str) -> None:
    starts = {machine: definition(stage, machine)["StartAt"] for machine in MACHINES}

    assert starts == dict.fromkeys(SETTLEMENTS, "ClaimKey") | {"Compensation": "BeginCompensation"}


@pytest.mark.parametrize("stage", ON_AWS)
def test_on_aws_the_machine_waits_for_a_decision_as_long_as_the_alert_says(stage: str) -> None:
    """Each wait is longer; a fixed one would alert at the same pace for months."""
    waiting = definition(stage, "Compensation")["States"]["AwaitResolution"]

    assert waiting["TimeoutSecondsPath"] == "$.wait_seconds"
    assert "TimeoutSeconds" not in waiting


@pytest.mark.parametrize("stage", EMBEDDED)
@pytest.mark.parametrize("seconds", [60, 61])
def test_on_the_embedded_aws_every_wait_is_as_long_as_the_first(stage: str, seconds: int) -> None:
    """It has no TimeoutSecondsPath. The timeout factor is for functions, not for a person's time."""
    settings = replace(STAGES[stage], alert_again_after_seconds=seconds)

    waiting = json.loads(render_definition("compensation", settings))["States"]["AwaitResolution"]

    assert waiting["TimeoutSeconds"] == seconds
    assert "TimeoutSecondsPath" not in waiting


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("file", ["settlement", "compensation"])
def test_a_stage_changes_timeouts_and_nothing_else(stage: str, file: str) -> None:
    written = json.loads((STATE_MACHINES / f"{file}.asl.json").read_text())
    rendered = json.loads(render_definition(file, STAGES[stage]))

    for state_name, state in written["States"].items():
        found = rendered["States"][state_name]
        if "TimeoutSeconds" in state:
            assert found["TimeoutSeconds"] == state["TimeoutSeconds"] * STAGES[stage].timeout_factor
        for timeout in ("TimeoutSeconds", "TimeoutSecondsPath"):
            state.pop(timeout, None)
            found.pop(timeout, None)

    assert rendered == written
