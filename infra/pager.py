"""The pager: a bus for events about LIMBO, rules, alarms, and an encrypted topic to subscribe to."""

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as cloudwatch_actions
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.config import Settings

_PUBLISHERS = ("events.amazonaws.com", "cloudwatch.amazonaws.com")
"""The services that publish to the topic. Without a grant on its key, their messages are lost silently."""


class Pager(Construct):
    """The event bus of the machines, and the topic that notifies the person on call."""

    def __init__(self, scope: Construct, construct_id: str, *, settings: Settings) -> None:
        super().__init__(scope, construct_id)
        self.alarms: list[cloudwatch.Alarm] = []
        self._alarm_runbook = f"{settings.runbooks}/alarms.md"
        self.bus = events.EventBus(self, "Bus", event_bus_name=settings.stack_name)
        removal_policy = RemovalPolicy.RETAIN if settings.keeps_data else RemovalPolicy.DESTROY
        key = kms.Key(self, "Key", enable_key_rotation=True, removal_policy=removal_policy)
        for publisher in _PUBLISHERS:
            key.grant(iam.ServicePrincipal(publisher), "kms:Decrypt", "kms:GenerateDataKey*")
        self.topic = sns.Topic(self, "Topic", master_key=key, enforce_ssl=True)
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            )
        )
        self.undelivered = sqs.Queue(
            self,
            "Undelivered",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
            removal_policy=removal_policy,
        )
        events.Rule(
            self,
            "Rule",
            event_bus=self.bus,
            event_pattern=events.EventPattern(
                source=["settlement"], detail_type=["LimboEntered", "LimboResolved"]
            ),
            targets=[self._to_topic(events.RuleTargetInput.from_event_path("$.detail"))],
        )
        self.alarm(
            "AlertUndelivered",
            self.undelivered.metric_approximate_number_of_messages_visible(
                period=Duration.minutes(1), statistic="Maximum"
            ),
            "An on-call alert did not reach the topic. It is in the dead-letter queue.",
        )

    def watch(self, machine: sfn.StateMachine) -> None:
        """Alert on each execution of `machine` that does not succeed: by name, and by an alarm."""
        ends = ("FAILED", "TIMED_OUT", "ABORTED")
        summary = f"{machine.node.id} ended as {{}}: {{}}; see the runbook compensation-stalled"
        events.Rule(
            self,
            f"{machine.node.id}Ended",
            event_pattern=events.EventPattern(
                source=["aws.states"],
                detail_type=["Step Functions Execution Status Change"],
                detail={"stateMachineArn": [machine.state_machine_arn], "status": list(ends)},
            ),
            targets=[
                self._to_topic(
                    events.RuleTargetInput.from_object(
                        {
                            "summary": summary.format(
                                events.EventField.from_path("$.detail.status"),
                                events.EventField.from_path("$.detail.name"),
                            ),
                            "execution_arn": events.EventField.from_path("$.detail.executionArn"),
                        }
                    )
                )
            ],
        )
        period = Duration.minutes(1)
        for end, metric, verb in (
            ("Failed", machine.metric_failed(period=period), "failed"),
            ("TimedOut", machine.metric_timed_out(period=period), "timed out"),
            ("Aborted", machine.metric_aborted(period=period), "was aborted"),
        ):
            self.alarm(f"{machine.node.id}{end}", metric, f"An execution of {machine.node.id} {verb}.")

    def _to_topic(self, message: events.RuleTargetInput) -> targets.SnsTopic:
        """Return the topic as a target. After 15 minutes a message goes to the queue, which has an alarm."""
        return targets.SnsTopic(
            self.topic,
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

        Its description ends with the address of its section in the runbook.
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
            alarm_description=f"{description} Read {self._alarm_runbook}#{construct_id.lower()}",
        )
        alarm.add_alarm_action(cloudwatch_actions.SnsAction(self.topic))
        self.alarms.append(alarm)


def settlement_metric(name: str, *, statistic: str = "Sum") -> cloudwatch.Metric:
    """Return a metric that the functions write into their logs, over five minutes."""
    return cloudwatch.Metric(
        namespace="Settlement",
        metric_name=name,
        dimensions_map={"service": "settlement"},
        statistic=statistic,
        period=Duration.minutes(5),
    )
