from collections.abc import Iterable

from aws_cdk import RemovalPolicy
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from .settings import CoreSettings

ALIAS = "live"

STOPS = (
    *("SettlementExpressFailed", "SettlementExpressTimedOut"),
    *("SettlementStandardFailed", "SettlementStandardTimedOut"),
    *("FunctionFailed", "Recoveries"),
)
"""Alarms that end a deployment. A broken version fails or stalls executions.

Alarms on levels (`Pager.level`) are left out.
"""


class Live(Construct):
    """A machine's newest version, and the alias that gradually directs new executions to it.

    Earlier versions stay: a deployment's alias or a person's rollback may need them. Callers take the alias's
    ARN from `Live`. So CloudFormation updates callers after the shift, and leaves them alone on a rollback.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, machine: sfn.StateMachine, settings: CoreSettings
    ) -> None:
        super().__init__(scope, construct_id)
        version = sfn.CfnStateMachineVersion(
            self,
            "Version",
            state_machine_arn=machine.state_machine_arn,
            state_machine_revision_id=machine.state_machine_revision_id,
        )
        version.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        self._alias = sfn.CfnStateMachineAlias(
            self,
            "Alias",
            name=ALIAS,
            deployment_preference=sfn.CfnStateMachineAlias.DeploymentPreferenceProperty(
                type="CANARY",
                percentage=settings.canary_percent,
                interval=settings.canary_minutes,
                state_machine_version_arn=version.attr_arn,
            ),
        )

    @property
    def arn(self) -> str:
        return self._alias.attr_arn

    def stopped_by(self, alarms: Iterable[cloudwatch.Alarm]) -> None:
        """Let the alarms in `STOPS` end a deployment. CloudFormation needs their names, not their ARNs."""
        names = {alarm.node.id: alarm.alarm_name for alarm in alarms}
        self._alias.add_property_override("DeploymentPreference.Alarms", [names[one] for one in STOPS])
