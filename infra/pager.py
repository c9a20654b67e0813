import re
from collections.abc import Sequence
from functools import cache

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as cloudwatch_actions
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from .assets import ALARMS_RUNBOOK
from .settings import CoreSettings
from .urgency import Urgency

_ONE_FAULT_MINUTES = 30
"""Minutes without a failed execution after which a fault is over.

Recovery's longest pause, its next run and a task's retries take some 20 minutes.
"""

_PERIODS = 30
"""Periods of one minute, so the first failure pages within two minutes."""


class Pager(Construct):
    """The machines' bus, the alarms, and an encrypted topic for each urgency."""

    def __init__(self, scope: Construct, construct_id: str, *, settings: CoreSettings) -> None:
        super().__init__(scope, construct_id)
        self.alarms: list[cloudwatch.Alarm] = []
        self._settings = settings
        self.bus = events.EventBus(self, "Bus", event_bus_name=settings.stack_name)
        removal_policy = settings.removal_policy
        key = kms.Key(self, "Key", enable_key_rotation=True, removal_policy=removal_policy)
        # Without this grant the alarms' messages are lost silently.
        key.grant(iam.ServicePrincipal("cloudwatch.amazonaws.com"), "kms:Decrypt", "kms:GenerateDataKey*")
        self.key = key
        self._all_topics: list[sns.Topic] = []
        self.topics = {urgency: self.topic(urgency.value) for urgency in Urgency}

    def let_publish(self, function: lambda_.Function, topics: Sequence[sns.Topic]) -> None:
        function.add_to_role_policy(
            iam.PolicyStatement(actions=["sns:Publish"], resources=[topic.topic_arn for topic in topics])
        )
        function.add_to_role_policy(
            iam.PolicyStatement(
                actions=["kms:Decrypt", "kms:GenerateDataKey"],
                resources=[self.key.key_arn],
                conditions={"StringEquals": {"kms:ViaService": f"sns.{Stack.of(self).region}.amazonaws.com"}},
            )
        )

    def watch(self, machine: sfn.StateMachine) -> None:
        """Alert once per fault on failed executions of `machine`.

        Recovery restarts failed executions within 15 minutes.
        """
        minutes = Duration.minutes(_ONE_FAULT_MINUTES // _PERIODS)
        for end, metric, verb, urgency in (
            ("Failed", machine.metric_failed(period=minutes), "fail", Urgency.NOW),
            ("TimedOut", machine.metric_timed_out(period=minutes), "time out", Urgency.NOW),
            ("Aborted", machine.metric_aborted(period=minutes), "are aborted", Urgency.MORNING),
        ):
            described = f"Executions of {machine.node.id} {verb}."
            self.alarm(f"{machine.node.id}{end}", metric, described, periods=_PERIODS, urgency=urgency)

    def metric(self, name: str, *, statistic: str = "Sum") -> cloudwatch.Metric:
        """Return a metric from the functions' logs, with the stack as dimension."""
        return cloudwatch.Metric(
            namespace="Settlement",
            metric_name=name,
            dimensions_map={"service": self._settings.stack_name},
            statistic=statistic,
            period=Duration.minutes(5),
        )

    def metrics(self, *names: str) -> list[cloudwatch.Metric]:
        return [self.metric(name) for name in names]

    def levels(self, *names: str) -> list[cloudwatch.Metric]:
        return [self.metric(name, statistic="Maximum") for name in names]

    def level(
        self,
        construct_id: str,
        metric: str,
        description: str,
        *,
        threshold: int = 1,
        urgency: Urgency = Urgency.NOW,
    ) -> None:
        """Add an alarm on a metric that recovery reports.

        If recovery stops, the alarm RecoveryBehind alerts.
        """
        self.alarm(
            construct_id,
            self.metric(metric, statistic="Maximum"),
            description,
            threshold=threshold,
            missing=cloudwatch.TreatMissingData.IGNORE,
            urgency=urgency,
        )

    @property
    def failed_deliveries(self) -> list[cloudwatch.Metric]:
        return [
            topic.metric_number_of_notifications_failed(period=Duration.minutes(5), statistic="Sum")
            for topic in self._all_topics
        ]

    def watch_deliveries(self) -> None:
        """Add an alarm on undelivered messages, which alerts through every topic."""
        failed = {f"m{position}": metric for position, metric in enumerate(self.failed_deliveries)}
        total = cloudwatch.MathExpression(
            expression=" + ".join(f"FILL({name}, 0)" for name in failed),
            using_metrics=failed,
            label="total",
            period=Duration.minutes(5),
        )
        self.alarm("DeliveryFailed", total, "SNS could not deliver messages to a subscriber.")
        for urgency in (Urgency.MORNING, Urgency.INFORMATION):
            self.alarms[-1].add_alarm_action(cloudwatch_actions.SnsAction(self.topics[urgency]))

    def topic(self, construct_id: str, address: str | None = None) -> sns.Topic:
        encrypted = not self._settings.is_embedded  # the embedded AWS speaks plain HTTP
        topic = sns.Topic(self, construct_id, master_key=self.key, enforce_ssl=encrypted)
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            )
        )
        if address is not None:
            subscribe(topic, address)
        self._all_topics.append(topic)
        return topic

    def alarm(  # noqa: PLR0913
        self,
        construct_id: str,
        metric: cloudwatch.IMetric,
        description: str,
        *,
        threshold: int = 1,
        periods: int = 1,
        in_all_periods: bool = False,
        missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING,
        urgency: Urgency = Urgency.NOW,
        topic: sns.Topic | None = None,
    ) -> None:
        """Add an alarm: `metric` reaches `threshold` in one, or in all, of the last `periods`.

        The message has the alarm's name, description, first command and runbook address. `topic` also gets
        the alarm's end. By default, it is the urgency's topic.
        """
        alarm = cloudwatch.Alarm(
            self,
            construct_id,
            metric=metric,
            threshold=threshold,
            evaluation_periods=periods,
            datapoints_to_alarm=periods if in_all_periods else 1,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=missing,
            alarm_description="\n".join(
                (
                    description,
                    f"Run: {first_command(construct_id, self._settings)}",
                    f"Read: {self._settings.runbooks}/alarms.md#{construct_id.lower()}",
                )
            ),
        )
        action = cloudwatch_actions.SnsAction(topic or self.topics[urgency])
        alarm.add_alarm_action(action)
        alarm.add_ok_action(action)
        self.alarms.append(alarm)


def subscribe(topic: sns.Topic, address: str) -> None:
    by = subscriptions.UrlSubscription if "://" in address else subscriptions.EmailSubscription
    topic.add_subscription(by(address))


@cache
def _sections() -> dict[str, str]:
    _, *found = re.split(r"^## ", ALARMS_RUNBOOK.read_text("utf-8"), flags=re.MULTILINE)
    return {name: text for name, _, text in (one.partition("\n") for one in found)}


def first_command(alarm: str, settings: CoreSettings) -> str:
    """Return the first command under "Look" in the alarm's runbook section."""
    look = _sections()[alarm].partition("**Look.**")[2]
    command = re.findall(r"`((?:settle|aws) [^`]+)`", look)[0]
    stack = "" if settings.is_embedded else f"--stack {settings.told or settings.stack_name}"
    name, _, saga = (settings.told or settings.stack_name).partition("/")
    logs = f"{name}-{saga}"  # a group's name begins with the stack's, and its logical id with the saga's
    told = command.replace("$STACK", stack)
    told = told.replace("name-prefix settlement-prod-", f"name-prefix {logs}")
    told = told.replace("settlement-prod", settings.stack_name)
    return " ".join(told.split())
