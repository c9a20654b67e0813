"""The machines: a definition from `statemachines/`, deployed with a log and a role of its own."""

import json
from collections.abc import Mapping
from pathlib import Path

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.settings import Settings

STATE_MACHINES = Path(__file__).parent.parent / "statemachines"

_SYNC_RULE = "StepFunctionsGetEventsForStepFunctionsExecutionRule"
"""The rule by which Step Functions learns that an execution it waits for has ended."""


def render_definition(name: str, settings: Settings) -> str:
    """The definition in `statemachines/<name>.asl.json`, with the stage's patience in its timeouts.

    The embedded AWS knows no timeout that is part of the input, and would wait for ever: it gets a fixed one.
    Raises ValueError where a function may run on after its task has timed out: a late commit would
    then be the rule and not the exception.
    """
    definition = json.loads((STATE_MACHINES / f"{name}.asl.json").read_text())
    for state_name, state in definition["States"].items():
        if "TimeoutSeconds" in state:
            if state["TimeoutSeconds"] <= settings.function_timeout_seconds:
                raise ValueError(f"{name}.{state_name}: TimeoutSeconds must exceed function_timeout_seconds")
            state["TimeoutSeconds"] *= settings.patience
        if "TimeoutSecondsPath" in state and settings.interpreter:
            del state["TimeoutSecondsPath"]
            state["TimeoutSeconds"] = settings.page_again_after_seconds
    return json.dumps(definition)


class Machine(sfn.StateMachine):
    """A deployment of a definition that may invoke the functions it names, and nothing else until allowed.

    `names` has a function or a text for each placeholder; what the definition does not name is left out.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        definition: str,
        machine_type: sfn.StateMachineType,
        names: Mapping[str, lambda_.Function | str],
        settings: Settings,
    ) -> None:
        log_group = logs.LogGroup(
            scope,
            f"{construct_id}Logs",
            log_group_name=f"/aws/vendedlogs/states/{settings.stack_name}-{construct_id}",
            retention=settings.log_retention,
            removal_policy=RemovalPolicy.DESTROY,  # its name is fixed: kept, it would block a new stack
        )
        rendered = render_definition(definition, settings)
        named = {name: value for name, value in names.items() if f"${{{name}}}" in rendered}
        texts = {name: value for name, value in named.items() if isinstance(value, str)}
        functions = {name: value.function_arn for name, value in named.items() if not isinstance(value, str)}
        super().__init__(
            scope,
            construct_id,
            state_machine_type=machine_type,
            definition_body=sfn.DefinitionBody.from_string(rendered),
            definition_substitutions=functions | texts,
            logs=sfn.LogOptions(destination=log_group, level=sfn.LogLevel.ALL, include_execution_data=False),
            tracing_enabled=True,
        )
        self.allow(["lambda:InvokeFunction"], list(functions.values()))

    def allow(self, actions: list[str], resources: list[str]) -> None:
        """Let the machine's tasks call something: a definition given as text gets no grant by itself."""
        self.add_to_role_policy(iam.PolicyStatement(actions=actions, resources=resources))

    def start_from(self, function: lambda_.Function, variable: str) -> None:
        """Let `function` start executions, and tell it of the machine by an environment variable."""
        function.add_environment(variable, self.state_machine_arn)
        function.add_to_role_policy(
            iam.PolicyStatement(actions=["states:StartExecution"], resources=[self.state_machine_arn])
        )

    def followed_by(self, function: lambda_.Function) -> None:
        """Let `function` learn how the machine's executions stand; one of a Standard machine has an ARN."""
        function.add_to_role_policy(
            iam.PolicyStatement(actions=["states:DescribeExecution"], resources=[self.executions])
        )

    @property
    def executions(self) -> str:
        """The pattern of the ARNs of all of the machine's executions."""
        return Stack.of(self).format_arn(
            service="states",
            resource="execution",
            resource_name=f"{self.state_machine_name}:*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )


class SettlementMachine(Machine):
    """A deployment of `settlement.asl.json`; a Standard one waits for the end of a compensation it starts."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        machine_type: sfn.StateMachineType,
        compensation: Machine,
        functions: Mapping[str, lambda_.Function],
        settings: Settings,
    ) -> None:
        waits = machine_type is sfn.StateMachineType.STANDARD
        start = "arn:aws:states:::states:startExecution" + ".sync:2" * waits
        super().__init__(
            scope,
            construct_id,
            definition="settlement",
            machine_type=machine_type,
            names={
                **functions,
                "Compensation": compensation.state_machine_arn,
                "StartCompensation": start,
            },
            settings=settings,
        )
        self.allow(["states:StartExecution"], [compensation.state_machine_arn])
        if waits:
            rule = Stack.of(self).format_arn(service="events", resource="rule", resource_name=_SYNC_RULE)
            self.allow(["states:DescribeExecution", "states:StopExecution"], [compensation.executions])
            self.allow(["events:PutTargets", "events:PutRule", "events:DescribeRule"], [rule])
