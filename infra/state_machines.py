import json
from collections.abc import Mapping

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import aws_xray as xray
from constructs import Construct

from .assets import STATE_MACHINES
from .canary import Live
from .functions import HandlerFunction
from .settings import CoreSettings

_RULE_PRIORITY = 1_000
"""Priority of the stage's rules: before X-Ray's default rule, after an operator's temporary rules."""

MACHINE_LOGS = "/aws/vendedlogs/states/"

START = "arn:aws:states:::states:startExecution"
START_AND_WAIT = "arn:aws:states:::states:startExecution.sync:2"
"""Integration that waits for the started execution. Express machines do not support it."""

_TRACED_AS = {"compensation": "reversal", "pay_out": "payout"}
"""Part of a sampling rule's name. A settlement machine's part is its type."""

_SYNC_RULE = "StepFunctionsGetEventsForStepFunctionsExecutionRule"
"""AWS's rule that notifies Step Functions when an awaited execution ends."""


def render_definition(name: str, settings: CoreSettings) -> str:
    """Return `statemachines/<name>.asl.json` with the stage's timeouts.

    The embedded AWS ignores TimeoutSecondsPath, so the wait there is fixed. Raises ValueError if a function
    could outlive its task: late commits would become the rule.
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
    """Return the level. Compensations log everything: they may become incidents."""
    is_full = settings.logs_in_full or definition == "compensation"
    return sfn.LogLevel.ALL if is_full else sfn.LogLevel.ERROR


class Machine(sfn.StateMachine):
    """A deployed definition with a log. Its role may invoke the definition's functions.

    `names` has a function or a text for each placeholder.
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
            log_group_name=f"{MACHINE_LOGS}{settings.stack_name}-{construct_id}",
            retention=settings.log_retention,
            # The name is fixed, so `settle preflight` finds the log group of a deleted stack.
            removal_policy=settings.removal_policy,
        )
        rendered = render_definition(definition, settings)
        used = {name: value for name, value in names.items() if f"${{{name}}}" in rendered}
        texts = {name: value for name, value in used.items() if isinstance(value, str)}
        called = {name: value for name, value in used.items() if not isinstance(value, str)}
        # A reversal may wait for months and then needs fixed code, so it calls no version.
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
        if not settings.is_embedded:
            self._sample(_TRACED_AS.get(definition, machine_type.value.lower()), settings)
        # Any version: after a deployment, an execution in flight still calls its definition's version.
        versions = ":*" if qualified else ""
        self.allow(["lambda:InvokeFunction"], [f"{one.function_arn}{versions}" for one in called.values()])

    def _sample(self, name: str, settings: CoreSettings) -> None:
        """Trace the stage's share of executions, and each execution that its caller traces."""
        xray.CfnSamplingRule(
            self,
            "Traces",
            sampling_rule=xray.CfnSamplingRule.SamplingRuleProperty(
                rule_name=f"settle-{settings.stage}-{name}",  # X-Ray's maximum is 32 characters
                service_name=self.state_machine_name,
                service_type="AWS::StepFunctions::StateMachine",
                resource_arn="*",
                host="*",
                http_method="*",
                url_path="*",
                priority=_RULE_PRIORITY,
                reservoir_size=0,
                fixed_rate=settings.traced_percent / 100,
                version=1,
            ),
        )

    def allow(self, actions: list[str], resources: list[str]) -> None:
        """Grant actions. CDK derives no permission from a definition given as text."""
        self.add_to_role_policy(iam.PolicyStatement(actions=actions, resources=resources))

    def startable_by(self, function: lambda_.Function, variable: str) -> None:
        """Let `function` start executions. Its environment `variable` gets the ARN.

        IAM authorises by the machine's own ARN, even for an alias.
        """
        function.add_environment(variable, self.started_by)
        function.add_to_role_policy(
            iam.PolicyStatement(actions=["states:StartExecution"], resources=[self.state_machine_arn])
        )

    def describable_by(self, function: lambda_.Function) -> None:
        """Let a function describe executions. Only a Standard machine's executions have an ARN."""
        function.add_to_role_policy(
            iam.PolicyStatement(actions=["states:DescribeExecution"], resources=[self.executions])
        )

    @staticmethod
    def wakeable_by(function: lambda_.Function) -> None:
        """Let a function complete tasks of every machine. IAM has no resource for one task's token."""
        function.add_to_role_policy(iam.PolicyStatement(actions=["states:SendTaskSuccess"], resources=["*"]))

    @property
    def started_by(self) -> str:
        """The ARN to start: the machine's or an alias's."""
        return self.state_machine_arn

    @property
    def executions(self) -> str:
        return Stack.of(self).format_arn(
            service="states",
            resource="execution",
            resource_name=f"{self.state_machine_name}:*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )


class CompensationMachine(Machine):
    """The machine for reversals. It puts on-call alerts on the event bus."""

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
    """A machine for payments. A Standard machine waits for the compensation that it starts."""

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
                "StartCompensation": START_AND_WAIT if waits else START,
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
        return self.live.arn if self.live else super().started_by
