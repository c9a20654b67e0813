"""The state machines: definitions from `statemachines/`, each deployed with its own log and role."""

import json
from collections.abc import Mapping
from pathlib import Path

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.canary import Live
from infra.functions import HandlerFunction
from infra.settings import CoreSettings

STATE_MACHINES = Path(__file__).parent.parent / "statemachines"

_START = "arn:aws:states:::states:startExecution"
_START_AND_WAIT = "arn:aws:states:::states:startExecution.sync:2"
"""The integration that waits for the started execution's end. Express machines do not support it."""

_SYNC_RULE = "StepFunctionsGetEventsForStepFunctionsExecutionRule"
"""AWS's managed rule that tells Step Functions of the end of an execution that it waits for."""


def render_definition(name: str, settings: CoreSettings) -> str:
    """Return the definition in `statemachines/<name>.asl.json` with the stage's timeouts.

    The embedded AWS ignores TimeoutSecondsPath and would wait for ever: there the wait is fixed.
    Raises ValueError if a function could run on after its task has timed out: a late commit would
    then be the rule and not the exception.
    """
    definition = json.loads((STATE_MACHINES / f"{name}.asl.json").read_text("utf-8"))
    for state_name, state in definition["States"].items():
        if "TimeoutSeconds" in state:
            if state["TimeoutSeconds"] <= settings.function_timeout_seconds:
                raise ValueError(f"{name}.{state_name}: TimeoutSeconds must exceed function_timeout_seconds")
            state["TimeoutSeconds"] *= settings.timeout_factor
        if "TimeoutSecondsPath" in state and settings.is_embedded:
            del state["TimeoutSecondsPath"]
            state["TimeoutSeconds"] = settings.alert_again_after_seconds
    return json.dumps(definition)


def _log_level(definition: str, settings: CoreSettings) -> sfn.LogLevel:
    """Return the events to log: of a compensation all, as it is rare and may become an incident."""
    is_full = settings.logs_in_full or definition == "compensation"
    return sfn.LogLevel.ALL if is_full else sfn.LogLevel.ERROR


class Machine(sfn.StateMachine):
    """A deployed definition. It may invoke the functions that it names; `allow` adds to that.

    `names` has a function or a text for each placeholder. Names that are not in the definition are ignored.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        definition: str,
        machine_type: sfn.StateMachineType,
        names: Mapping[str, HandlerFunction | str],
        settings: CoreSettings,
    ) -> None:
        log_group = logs.LogGroup(
            scope,
            f"{construct_id}Logs",
            log_group_name=f"/aws/vendedlogs/states/{settings.stack_name}-{construct_id}",
            retention=settings.log_retention,
            # Its name is fixed: `settle preflight` finds one that a deleted stack has kept.
            removal_policy=settings.removal_policy,
        )
        rendered = render_definition(definition, settings)
        used = {name: value for name, value in names.items() if f"${{{name}}}" in rendered}
        texts = {name: value for name, value in used.items() if isinstance(value, str)}
        called = {name: value for name, value in used.items() if not isinstance(value, str)}
        # A reversal may wait for months, and then needs the mended code: it calls no version.
        qualified = settings.qualified_functions and definition == "settlement"
        functions = {
            name: (value.qualified if qualified else value).function_arn for name, value in called.items()
        }
        super().__init__(
            scope,
            construct_id,
            state_machine_type=machine_type,
            definition_body=sfn.DefinitionBody.from_string(rendered),
            definition_substitutions=functions | texts,
            logs=sfn.LogOptions(
                destination=log_group, level=_log_level(definition, settings), include_execution_data=False
            ),
            tracing_enabled=True,
        )
        # Any version: an execution in flight calls that of its own definition, also after a deployment.
        versions = ":*" if qualified else ""
        self.allow(["lambda:InvokeFunction"], [f"{one.function_arn}{versions}" for one in called.values()])

    def allow(self, actions: list[str], resources: list[str]) -> None:
        """Add a permission to the role. CDK derives none from a definition that is given as text."""
        self.add_to_role_policy(iam.PolicyStatement(actions=actions, resources=resources))

    def startable_by(self, function: lambda_.Function, variable: str) -> None:
        """Let `function` start executions, and put the ARN that it starts into its environment.

        IAM authorises a start by the machine's own ARN, also if it names an alias.
        """
        function.add_environment(variable, self.started_by)
        function.add_to_role_policy(
            iam.PolicyStatement(actions=["states:StartExecution"], resources=[self.state_machine_arn])
        )

    def describable_by(self, function: lambda_.Function) -> None:
        """Let `function` read the status of executions. Only a Standard machine's have an ARN."""
        function.add_to_role_policy(
            iam.PolicyStatement(actions=["states:DescribeExecution"], resources=[self.executions])
        )

    @staticmethod
    def wakeable_by(function: lambda_.Function) -> None:
        """Let `function` end a task's wait. IAM names no resource for that, as the token is of one task."""
        function.add_to_role_policy(iam.PolicyStatement(actions=["states:SendTaskSuccess"], resources=["*"]))

    @property
    def started_by(self) -> str:
        """The ARN that a start names."""
        return self.state_machine_arn

    @property
    def executions(self) -> str:
        """The pattern that the ARNs of the machine's executions match."""
        return Stack.of(self).format_arn(
            service="states",
            resource="execution",
            resource_name=f"{self.state_machine_name}:*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )


class CompensationMachine(Machine):
    """A deployment of `compensation.asl.json`. It puts its on-call alerts on the event bus."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        bus: events.EventBus,
        functions: Mapping[str, HandlerFunction],
        settings: CoreSettings,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            definition="compensation",
            machine_type=sfn.StateMachineType.STANDARD,
            names={**functions, "EventBus": bus.event_bus_name},
            settings=settings,
        )
        self.allow(["events:PutEvents"], [bus.event_bus_arn])


class SettlementMachine(Machine):
    """A deployment of `settlement.asl.json`. A Standard one waits for the compensation that it starts."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        machine_type: sfn.StateMachineType,
        compensation: Machine,
        functions: Mapping[str, HandlerFunction],
        settings: CoreSettings,
    ) -> None:
        waits = machine_type is sfn.StateMachineType.STANDARD
        super().__init__(
            scope,
            construct_id,
            definition="settlement",
            machine_type=machine_type,
            names={
                **functions,
                "Compensation": compensation.state_machine_arn,
                "StartCompensation": _START_AND_WAIT if waits else _START,
            },
            settings=settings,
        )
        self.allow(["states:StartExecution"], [compensation.state_machine_arn])
        if waits:
            rule = Stack.of(self).format_arn(service="events", resource="rule", resource_name=_SYNC_RULE)
            self.allow(["states:DescribeExecution", "states:StopExecution"], [compensation.executions])
            self.allow(["events:PutTargets", "events:PutRule", "events:DescribeRule"], [rule])
        self.live = Live(self, "Live", machine=self, settings=settings) if settings.canary_percent else None

    @property
    def started_by(self) -> str:
        """The ARN of the alias on a stage with a canary, or the machine's."""
        return self.live.arn if self.live else super().started_by
