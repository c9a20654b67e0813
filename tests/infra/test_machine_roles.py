"""The permissions of each machine's role: the calls of its definition, and no others."""

from typing import Any

import pytest

from infra.config import STAGES
from infra.grants import TRIGGERED
from tests.infra.iam import arn, attribute, statements
from tests.infra.machines import (
    MACHINES,
    bus,
    definition,
    each_machine,
    each_stage,
    logical_id,
    name,
    properties,
)
from tests.support import templates

NEEDED = {
    "arn:aws:states:::lambda:invoke": {"lambda:InvokeFunction"},
    "arn:aws:states:::lambda:invoke.waitForTaskToken": {"lambda:InvokeFunction"},
    "arn:aws:states:::events:putEvents": {"events:PutEvents"},
    "arn:aws:states:::states:startExecution": {"states:StartExecution"},
    "arn:aws:states:::states:startExecution.sync:2": {
        "states:StartExecution",
        "states:DescribeExecution",
        "states:StopExecution",
        "events:PutTargets",
        "events:PutRule",
        "events:DescribeRule",
    },
}
"""The actions that AWS asks of a task's integration. The embedded AWS does not ask for all of them."""

LOGGING = {
    "logs:CreateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:DescribeLogGroups",
    "logs:DescribeResourcePolicies",
    "logs:GetLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:UpdateLogDelivery",
}
TRACING = {
    "xray:GetSamplingRules",
    "xray:GetSamplingTargets",
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
}

_HERE = "${AWS::Region}:${AWS::AccountId}"


def allowed(stage: str, machine: str) -> dict[str, set[str]]:
    """Return each action of the machine's role, with its resources."""
    found = statements(attribute(properties(stage, machine)["RoleArn"]), stage)
    assert {one.effect for one in found} == {"Allow"}
    actions = {action for one in found for action in one.actions}
    return {
        action: {resource for one in found if action in one.actions for resource in one.resources}
        for action in actions
    }


def integrations(stage: str, machine: str) -> set[str]:
    """Return the integrations of the machine's tasks, as deployed."""
    substitutions = properties(stage, machine)["DefinitionSubstitutions"]
    resources = (state.get("Resource", "") for state in definition(stage, machine)["States"].values())
    return {
        substitutions["StartCompensation"] if resource == "${StartCompensation}" else resource
        for resource in resources
    } - {""}


@each_machine
def test_a_machine_may_take_the_actions_that_its_tasks_need_and_no_other(stage: str, machine: str) -> None:
    needed: set[str] = set().union(*(NEEDED[resource] for resource in integrations(stage, machine)))

    assert allowed(stage, machine).keys() == needed | LOGGING | TRACING


@each_machine
def test_a_machine_may_invoke_its_functions_and_nothing_else(stage: str, machine: str) -> None:
    substitutions = properties(stage, machine)["DefinitionSubstitutions"]
    functions = templates.resources("AWS::Lambda::Function", stage)
    own = {
        arn(substitutions[state["Parameters"]["FunctionName"][2:-1]], stage)
        for state in definition(stage, machine)["States"].values()
        if ":lambda:invoke" in state.get("Resource", "")
    }

    assert allowed(stage, machine)["lambda:InvokeFunction"] == own
    assert own <= functions.keys()


@each_stage
def test_the_machines_may_invoke_every_function_but_the_triggered_ones(
    stage: str,
) -> None:
    invoked = {one for machine in MACHINES for one in allowed(stage, machine)["lambda:InvokeFunction"]}

    functions = templates.resources("AWS::Lambda::Function", stage).keys()
    assert {name(one) for one in functions - invoked} == TRIGGERED.keys()
    assert invoked <= functions


@each_stage
def test_an_express_settlement_may_start_the_compensation_only(stage: str) -> None:
    found = others(stage, "SettlementExpress")

    assert found == {"states:StartExecution": {logical_id(stage, "Compensation")}}


@each_stage
def test_a_standard_settlement_may_wait_for_the_compensation_only(stage: str) -> None:
    """If it is stopped, it stops the compensation; it learns of its end through a rule of AWS's own."""
    compensation = logical_id(stage, "Compensation")
    executions = {f"arn:${{AWS::Partition}}:states:{_HERE}:execution:${{{compensation}.Name}}:*"}
    rule = {
        f"arn:${{AWS::Partition}}:events:{_HERE}:rule/StepFunctionsGetEventsForStepFunctionsExecutionRule"
    }

    assert others(stage, "SettlementStandard") == {
        "states:StartExecution": {compensation},
        "states:DescribeExecution": executions,
        "states:StopExecution": executions,
        "events:PutTargets": rule,
        "events:PutRule": rule,
        "events:DescribeRule": rule,
    }


@each_stage
def test_the_compensation_may_put_events_on_our_bus_only(stage: str) -> None:
    assert others(stage, "Compensation") == {"events:PutEvents": {bus(stage)}}


@each_machine
def test_only_logs_and_traces_are_granted_without_a_resource(stage: str, machine: str) -> None:
    """X-Ray and the delivery of vended logs have no resources to name."""
    everywhere = {action for action, resources in allowed(stage, machine).items() if "*" in resources}

    assert everywhere == LOGGING | TRACING


@pytest.mark.parametrize("machine", MACHINES)
def test_no_grant_depends_on_a_condition(machine: str) -> None:
    """The definition's calls carry no attribute that a condition could ask for."""
    for stage in STAGES:
        for one in statements(attribute(properties(stage, machine)["RoleArn"]), stage):
            assert one.conditions == {}


@each_machine
def test_only_step_functions_in_this_account_takes_a_machines_role(stage: str, machine: str) -> None:
    role = templates.resources("AWS::IAM::Role", stage)[attribute(properties(stage, machine)["RoleArn"])]
    (trust,) = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]

    assert (trust["Effect"], trust["Action"]) == ("Allow", "sts:AssumeRole")
    assert trust["Principal"] == {"Service": "states.amazonaws.com"}
    assert trust["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}


@each_stage
def test_the_machines_have_a_role_each(stage: str) -> None:
    roles = {attribute(properties(stage, machine)["RoleArn"]) for machine in MACHINES}
    functions = templates.resources("AWS::Lambda::Function", stage).values()

    assert len(roles) == len(MACHINES)
    assert not roles & {attribute(function["Properties"]["Role"]) for function in functions}


def others(stage: str, machine: str) -> Any:
    """Return the role's actions besides invoking functions, logging and tracing."""
    common = LOGGING | TRACING | {"lambda:InvokeFunction"}
    return {action: found for action, found in allowed(stage, machine).items() if action not in common}
