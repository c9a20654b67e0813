"""The recovery of stalled settlements: a run each minute, and alarms on its failures."""

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from infra.pager import Pager, settlement_metric


class Recovery(Construct):
    """The schedule of RecoverStalled. A failed run is not retried: the next one is a minute away."""

    def __init__(
        self, scope: Construct, construct_id: str, *, function: lambda_.Function, pager: Pager
    ) -> None:
        super().__init__(scope, construct_id)
        function.configure_async_invoke(retry_attempts=0, max_event_age=Duration.minutes(1))
        scheduler.Schedule(
            self,
            "EachMinute",
            schedule=scheduler.ScheduleExpression.rate(Duration.minutes(1)),
            target=targets.LambdaInvoke(function, retry_attempts=0),
        )
        pager.alarm(
            "RecoveryFailed",
            function.metric_errors(period=Duration.minutes(5), statistic="Sum"),
            "Recovery fails: stalled settlements are not resumed.",
            threshold=3,  # a person's call for one settlement may fail as well
        )
        pager.alarm(
            "NotRecovered",
            settlement_metric("NotRecovered"),
            "Recovery cannot resume a stalled settlement.",
        )
