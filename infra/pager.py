"""The pager: a bus for events about LIMBO, rules, alarms, and an encrypted topic for each urgency."""

import re
from functools import cache
from pathlib import Path

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as cloudwatch_actions
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.config import Settings
from infra.urgency import Urgency, urgency_of

ALARMS_RUNBOOK = Path(__file__).parent.parent / "docs" / "runbooks" / "alarms.md"

_PUBLISHERS = ("events.amazonaws.com", "cloudwatch.amazonaws.com")
"""The services that publish to the topics. Without a grant on its key, their messages are lost silently."""


_ONE_FAULT_MINUTES = 30
"""A fault is over once no execution has failed for so long: recovery's longest pause, its next run and the
retries of a task take some 20 minutes.
"""

_PERIODS = 30
"""Of a minute each: the first failure pages within a minute or two."""


class Pager(Construct):
    """The event bus of the machines, and the topics that notify people, by urgency."""

    def __init__(self, scope: Construct, construct_id: str, *, settings: Settings) -> None:
        super().__init__(scope, construct_id)
        self.alarms: list[cloudwatch.Alarm] = []
        self._settings = settings
        self.bus = events.EventBus(self, "Bus", event_bus_name=settings.stack_name)
        removal_policy = RemovalPolicy.RETAIN if settings.keeps_data else RemovalPolicy.DESTROY
        key = kms.Key(self, "Key", enable_key_rotation=True, removal_policy=removal_policy)
        for publisher in _PUBLISHERS:
            key.grant(iam.ServicePrincipal(publisher), "kms:Decrypt", "kms:GenerateDataKey*")
        self.topics = {urgency: self._new_topic(urgency, key) for urgency in Urgency}
        self.undelivered = sqs.Queue(
            self,
            "Undelivered",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
            removal_policy=removal_policy,
        )
        for rule, event, urgency in (
            ("Rule", "LimboEntered", Urgency.NOW),
            ("ResolvedRule", "LimboResolved", Urgency.INFORMATION),
            ("BrokenGlassRule", "GlassBroken", Urgency.NOW),
        ):
            events.Rule(
                self,
                rule,
                event_bus=self.bus,
                event_pattern=events.EventPattern(source=["settlement"], detail_type=[event]),
                targets=[self._to_topic(urgency, events.RuleTargetInput.from_event_path("$.detail"))],
            )
        self.alarm(
            "AlertUndelivered",
            self.undelivered.metric_approximate_number_of_messages_visible(
                period=Duration.minutes(1), statistic="Maximum"
            ),
            "An on-call alert did not reach the topic. It is in the dead-letter queue.",
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
            for topic in self.topics.values()
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

    def _new_topic(self, urgency: Urgency, key: kms.Key) -> sns.Topic:
        topic = sns.Topic(self, urgency.value, master_key=key, enforce_ssl=True)
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            )
        )
        is_page = urgency is Urgency.NOW
        address = self._settings.page_address if is_page else self._settings.notice_address
        if address is not None:
            by = subscriptions.UrlSubscription if "://" in address else subscriptions.EmailSubscription
            topic.add_subscription(by(address))
        return topic

    def _to_topic(self, urgency: Urgency, message: events.RuleTargetInput) -> targets.SnsTopic:
        """Return a topic as a target. After 15 minutes a message goes to the queue, which has an alarm."""
        return targets.SnsTopic(
            self.topics[urgency],
            message=message,
            dead_letter_queue=self.undelivered,
            max_event_age=Duration.minutes(15),
        )

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
    ) -> None:
        """Add an alarm on a metric that reaches `threshold` in any, or in all, of the last `periods`.

        A message of it begins with its name and its description: what it means, the command to type first,
        and the address of its section in the runbook. The topic of its urgency hears when it is over, too.
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
        topic = cloudwatch_actions.SnsAction(self.topics[urgency_of(construct_id)])
        alarm.add_alarm_action(topic)
        alarm.add_ok_action(topic)
        self.alarms.append(alarm)


@cache
def _sections() -> dict[str, str]:
    _, *found = re.split(r"^## ", ALARMS_RUNBOOK.read_text(), flags=re.MULTILINE)
    return {name: text for name, _, text in (one.partition("\n") for one in found)}


def first_command(alarm: str, settings: Settings) -> str:
    """Return the first command under "Look" in the alarm's section of the runbook, for the stage."""
    look = _sections()[alarm].partition("**Look.**")[2]
    command = re.findall(r"`((?:settle|aws) [^`]+)`", look)[0]
    stack = "" if settings.is_embedded else f"--stack {settings.stack_name}"
    told = command.replace("$STACK", stack).replace("settlement-prod", settings.stack_name)
    return " ".join(told.split())
