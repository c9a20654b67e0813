"""The canary of a deployment: a new version of a machine gets a share of the payments first."""

from collections.abc import Iterable

from aws_cdk import RemovalPolicy
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.settings import CoreSettings

ALIAS = "live"

STOPS = (
    *("SettlementExpressFailed", "SettlementExpressTimedOut"),
    *("SettlementStandardFailed", "SettlementStandardTimedOut"),
    *("FunctionFailed", "Recoveries"),
)
"""The alarms that end a deployment. A new version that is broken makes executions end badly or stall.

The levels (cases of LIMBO, ages) are not among them: they may have been there before, and for hours.
"""


class Live(Construct):
    """The newest version of a machine, and the alias that shifts the starts from the one before to it.

    CloudFormation publishes a version of each revision of the machine. The earlier ones stay: the alias needs
    the last one during a deployment, and a person may point it back. Those who start the alias get the ARN
    from here, so that CloudFormation updates them after the shift, and not at all if it goes back.
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
        """The ARN of the alias."""
        return self._alias.attr_arn

    def stopped_by(self, alarms: Iterable[cloudwatch.Alarm]) -> None:
        """Let the alarms in `STOPS` end a deployment. CloudFormation wants their names, not their ARNs."""
        names = {alarm.node.id: alarm.alarm_name for alarm in alarms}
        self._alias.add_property_override("DeploymentPreference.Alarms", [names[one] for one in STOPS])
