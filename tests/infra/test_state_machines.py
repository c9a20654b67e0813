"""The machines: one definition twice, logs without payloads, and a role that invokes and does no more."""

import json
import re
from typing import Any

import pytest

from infra.settings import STAGES
from infra.settlement_stack import GRANTS
from tests.infra.iam import attribute, statements
from tests.support import templates

TYPES = ("EXPRESS", "STANDARD")

each_stage = pytest.mark.parametrize("stage", STAGES)
each_machine = pytest.mark.parametrize(
    ("stage", "machine_type"), [(stage, machine_type) for stage in STAGES for machine_type in TYPES]
)


def properties(stage: str, machine_type: str) -> Any:
    (found,) = (
        machine["Properties"]
        for machine in templates.resources("AWS::StepFunctions::StateMachine", stage).values()
        if machine["Properties"]["StateMachineType"] == machine_type
    )
    return found


def log_group(stage: str, machine_type: str) -> Any:
    (destination,) = properties(stage, machine_type)["LoggingConfiguration"]["Destinations"]
    name = attribute(destination["CloudWatchLogsLogGroup"]["LogGroupArn"])
    return templates.resources("AWS::Logs::LogGroup", stage)[name]["Properties"]


@each_stage
def test_both_machines_are_one_definition(stage: str) -> None:
    express, standard = (properties(stage, machine_type) for machine_type in TYPES)

    for name in ("DefinitionString", "DefinitionSubstitutions", "TracingConfiguration"):
        assert express[name] == standard[name]


@each_stage
def test_there_is_one_machine_of_each_type(stage: str) -> None:
    machines = templates.resources("AWS::StepFunctions::StateMachine", stage).values()

    assert sorted(machine["Properties"]["StateMachineType"] for machine in machines) == list(TYPES)


@each_machine
def test_every_execution_is_logged_but_no_payload_is(stage: str, machine_type: str) -> None:
    logging = properties(stage, machine_type)["LoggingConfiguration"]

    assert logging["Level"] == "ALL"
    assert logging["IncludeExecutionData"] is False


@each_machine
def test_logs_go_where_their_policy_does_not_outgrow_its_limit(stage: str, machine_type: str) -> None:
    """Under this prefix AWS needs no entry in the account's resource policy, which holds 5,120 characters."""
    group = log_group(stage, machine_type)

    assert group["LogGroupName"].startswith("/aws/vendedlogs/states/")
    assert stage in group["LogGroupName"]
    assert group["RetentionInDays"] == {"local": 1, "dev": 7, "prod": 365}[stage]


@each_stage
def test_the_machines_log_apart(stage: str) -> None:
    assert len({log_group(stage, machine_type)["LogGroupName"] for machine_type in TYPES}) == len(TYPES)


@each_machine
def test_executions_are_traced(stage: str, machine_type: str) -> None:
    assert properties(stage, machine_type)["TracingConfiguration"] == {"Enabled": True}


@each_machine
def test_every_placeholder_is_the_function_of_its_name(stage: str, machine_type: str) -> None:
    machine = properties(stage, machine_type)
    placeholders = set(re.findall(r"\$\{(.*?)\}", machine["DefinitionString"]))

    substituted = {
        name: re.sub(r"[0-9A-F]{8}$", "", attribute(value))
        for name, value in machine["DefinitionSubstitutions"].items()
    }

    assert placeholders == substituted.keys()
    assert substituted == {name: name for name in placeholders}


@each_machine
def test_a_machine_may_invoke_its_functions_and_nothing_else(stage: str, machine_type: str) -> None:
    machine = properties(stage, machine_type)
    role = attribute(machine["RoleArn"])
    own = {attribute(value) for value in machine["DefinitionSubstitutions"].values()}

    found = statements(role, stage)

    assert {one.effect for one in found} == {"Allow"}
    (invoking,) = (one for one in found if any(action.startswith("lambda:") for action in one.actions))
    assert invoking.actions == {"lambda:InvokeFunction"}
    assert set(invoking.resources) == own
    assert len(own) == len(GRANTS)


@each_machine
def test_besides_invoking_a_machine_may_log_and_trace(stage: str, machine_type: str) -> None:
    found = statements(attribute(properties(stage, machine_type)["RoleArn"]), stage)

    services = {action.split(":")[0] for one in found for action in one.actions}

    assert services == {"lambda", "logs", "xray"}


@each_stage
def test_the_machines_have_a_role_each(stage: str) -> None:
    roles = {attribute(properties(stage, machine_type)["RoleArn"]) for machine_type in TYPES}
    functions = templates.resources("AWS::Lambda::Function", stage).values()

    assert len(roles) == len(TYPES)
    assert not roles & {attribute(function["Properties"]["Role"]) for function in functions}


@each_stage
def test_the_definition_in_the_template_is_json_that_a_reader_can_check(stage: str) -> None:
    definition = json.loads(properties(stage, "EXPRESS")["DefinitionString"])

    assert definition["StartAt"] == "ClaimKey"
