"""The pager: a bus for events about LIMBO, rules, alarms, and an encrypted topic for each urgency."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import cast

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as cloudwatch_actions
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.paging import PagingSettings
from infra.settings import CoreSettings
from infra.urgency import Urgency, urgency_of

ALARMS_RUNBOOK = Path(__file__).parent.parent / "docs" / "runbooks" / "alarms.md"

_EVENTS = ("LimboEntered", "LimboResolved", "GlassBroken")
"""The events on the bus that people are told of. `policy/page.py` says how, and which of them page."""

_PAGE_AGE_MAX = Duration.minutes(15)
"""A page that is tried for longer helps no one; in the queue it sets off an alarm."""


_ONE_FAULT_MINUTES = 30
"""A fault is over once no execution has failed for so long: recovery's longest pause, its next run and the
retries of a task take some 20 minutes.
"""

_PERIODS = 30
"""Of a minute each: the first failure pages within a minute or two."""


class Pager(Construct):
    """The event bus of the machines, and the topics that notify people, by urgency."""

    def __init__(self, scope: Construct, construct_id: str, *, settings: PagingSettings) -> None:
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
        self.topics = {
            urgency: self.topic(
                urgency.value,
                settings.page_address if urgency is Urgency.NOW else settings.notice_address,
            )
            for urgency in Urgency
        }
        self.undelivered = sqs.Queue(
            self,
            "Undelivered",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
            removal_policy=removal_policy,
        )
        self.alarm(
            "AlertUndelivered",
            self.undelivered.metric_approximate_number_of_messages_visible(
                period=Duration.minutes(1), statistic="Maximum"
            ),
            "A page could not be sent to people. Its event is in the dead-letter queue.",
        )

    def send_by(self, function: lambda_.Function) -> None:
        """Let a function write the pages about the bus's events, and publish them.

        An event that it cannot be called with, or that it has failed three times with, goes to the queue.
        """
        events.Rule(
            self,
            "Rule",
            event_bus=self.bus,
            event_pattern=events.EventPattern(source=["settlement"], detail_type=list(_EVENTS)),
            targets=[
                targets.LambdaFunction(
                    function, dead_letter_queue=self.undelivered, max_event_age=_PAGE_AGE_MAX
                )
            ],
        )
        function.configure_async_invoke(
            retry_attempts=2,
            max_event_age=_PAGE_AGE_MAX,
        )
        # Not by CDK's SqsDestination, which would also let the function look at the queue.
        config = cast(
            "lambda_.CfnEventInvokeConfig", function.node.find_child("EventInvokeConfig").node.default_child
        )
        of_config = lambda_.CfnEventInvokeConfig
        config.destination_config = of_config.DestinationConfigProperty(
            on_failure=of_config.OnFailureProperty(destination=self.undelivered.queue_arn)
        )
        for variable, urgency in (("PAGE_TOPIC", Urgency.NOW), ("INFORMATION_TOPIC", Urgency.INFORMATION)):
            function.add_environment(variable, self.topics[urgency].topic_arn)
        self.let_publish(function, [self.topics[Urgency.NOW], self.topics[Urgency.INFORMATION]])
        function.add_to_role_policy(
            iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[self.undelivered.queue_arn])
        )

    def let_publish(self, function: lambda_.Function, topics: Sequence[sns.Topic]) -> None:
        """Let a function publish to topics that the pager's key encrypts."""
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
        """Alert once on executions of `machine` that do not succeed, for as long as they do not.

        Recovery starts each of them again, after pauses of 15 minutes at most: an alarm that covers the
        longest one pages once for a fault, however many executions meet it, and says when it is over.
        """
        minutes = Duration.minutes(_ONE_FAULT_MINUTES // _PERIODS)
        for end, metric, verb in (
            ("Failed", machine.metric_failed(period=minutes), "fail"),
            ("TimedOut", machine.metric_timed_out(period=minutes), "time out"),
            ("Aborted", machine.metric_aborted(period=minutes), "are aborted"),
        ):
            name = f"{machine.node.id}{end}"
            self.alarm(name, metric, f"Executions of {machine.node.id} {verb}.", periods=_PERIODS)

    def metric(self, name: str, *, statistic: str = "Sum") -> cloudwatch.Metric:
        """Return a metric that the stage's functions write into their logs, over five minutes.

        Its dimension is the stack: several stages of an account have metrics of their own.
        """
        return cloudwatch.Metric(
            namespace="Settlement",
            metric_name=name,
            dimensions_map={"service": self._settings.stack_name},
            statistic=statistic,
            period=Duration.minutes(5),
        )

    @property
    def failed_deliveries(self) -> list[cloudwatch.Metric]:
        """The messages that each topic could not deliver."""
        return [
            topic.metric_number_of_notifications_failed(period=Duration.minutes(5), statistic="Sum")
            for topic in self._all_topics
        ]

    def watch_deliveries(self) -> None:
        """Alert on messages that a topic could not deliver, by every topic."""
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

    def topic(self, construct_id: str, address: str | None) -> sns.Topic:
        """Add a topic for this account's alarms, with a subscription of the address, if there is one."""
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
            by = subscriptions.UrlSubscription if "://" in address else subscriptions.EmailSubscription
            topic.add_subscription(by(address))
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
        topic: sns.Topic | None = None,
    ) -> None:
        """Add an alarm on a metric that reaches `threshold` in any, or in all, of the last `periods`.

        A message of it begins with its name and its description: what it means, the command to type first,
        and the address of its section in the runbook. `topic`, or the one of its urgency, hears when it is
        over, too.
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
        action = cloudwatch_actions.SnsAction(topic or self.topics[urgency_of(construct_id)])
        alarm.add_alarm_action(action)
        alarm.add_ok_action(action)
        self.alarms.append(alarm)


@cache
def _sections() -> dict[str, str]:
    _, *found = re.split(r"^## ", ALARMS_RUNBOOK.read_text("utf-8"), flags=re.MULTILINE)
    return {name: text for name, _, text in (one.partition("\n") for one in found)}


def first_command(alarm: str, settings: CoreSettings) -> str:
    """Return the first command under "Look" in the alarm's section of the runbook, for the stage."""
    look = _sections()[alarm].partition("**Look.**")[2]
    command = re.findall(r"`((?:settle|aws) [^`]+)`", look)[0]
    stack = "" if settings.is_embedded else f"--stack {settings.stack_name}"
    told = command.replace("$STACK", stack).replace("settlement-prod", settings.stack_name)
    return " ".join(told.split())
