"""The settlement machine: one definition, deployed as an Express and as a Standard machine."""

import json
from collections.abc import Mapping
from pathlib import Path

from aws_cdk import RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.settings import Settings

STATE_MACHINES = Path(__file__).parent.parent / "statemachines"


def render_definition(name: str, settings: Settings) -> str:
    """The definition in `statemachines/<name>.asl.json`, with the stage's patience in its timeouts.

    Raises ValueError where a function may run on after its task has timed out: a late commit would
    then be the rule and not the exception.
    """
    definition = json.loads((STATE_MACHINES / f"{name}.asl.json").read_text())
    for state_name, state in definition["States"].items():
        if state["Type"] == "Task":
            if state["TimeoutSeconds"] <= settings.function_timeout_seconds:
                raise ValueError(f"{name}.{state_name}: TimeoutSeconds must exceed function_timeout_seconds")
            state["TimeoutSeconds"] *= settings.patience
    return json.dumps(definition)


class SettlementMachine(sfn.StateMachine):
    """A deployment of `settlement.asl.json` that may invoke the functions it names, and nothing else."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        machine_type: sfn.StateMachineType,
        functions: Mapping[str, lambda_.Function],
        settings: Settings,
    ) -> None:
        log_group = logs.LogGroup(
            scope,
            f"{construct_id}Logs",
            log_group_name=f"/aws/vendedlogs/states/{settings.stack_name}-{construct_id}",
            retention=settings.log_retention,
            removal_policy=RemovalPolicy.DESTROY,  # its name is fixed: kept, it would block a new stack
        )
        super().__init__(
            scope,
            construct_id,
            state_machine_type=machine_type,
            definition_body=sfn.DefinitionBody.from_string(render_definition("settlement", settings)),
            definition_substitutions={state: function.function_arn for state, function in functions.items()},
            logs=sfn.LogOptions(destination=log_group, level=sfn.LogLevel.ALL, include_execution_data=False),
            tracing_enabled=True,
        )
        self.add_to_role_policy(
            iam.PolicyStatement(
                actions=["lambda:InvokeFunction"],
                resources=[function.function_arn for function in functions.values()],
            )
        )
