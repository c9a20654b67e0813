"""What stopped moving is looked for each minute, and somebody hears where that fails."""

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from infra.paging import Paging, settlement_metric


class Recovery(Construct):
    """The schedule of RecoverStalled. A run that fails or cannot begin is not repeated; another follows."""

    def __init__(
        self, scope: Construct, construct_id: str, *, function: lambda_.Function, paging: Paging
    ) -> None:
        super().__init__(scope, construct_id)
        function.configure_async_invoke(retry_attempts=0, max_event_age=Duration.minutes(1))
        scheduler.Schedule(
            self,
            "EachMinute",
            schedule=scheduler.ScheduleExpression.rate(Duration.minutes(1)),
            target=targets.LambdaInvoke(function, retry_attempts=0),
        )
        paging.alarm(
            "RecoveryFailed",
            function.metric_errors(period=Duration.minutes(5), statistic="Sum"),
            "What has stopped moving is not looked for.",
            threshold=3,  # a person's call for one settlement may fail as well
        )
        paging.alarm(
            "NotRecovered",
            settlement_metric("NotRecovered"),
            "A settlement that has stopped moving cannot be driven on.",
        )
