"""What stopped moving is looked for each minute."""

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct


class Recovery(Construct):
    """The schedule of RecoverStalled. A run that fails is not repeated: the next one is a minute away."""

    def __init__(self, scope: Construct, construct_id: str, *, function: lambda_.Function) -> None:
        super().__init__(scope, construct_id)
        scheduler.Schedule(
            self,
            "EachMinute",
            schedule=scheduler.ScheduleExpression.rate(Duration.minutes(1)),
            target=targets.LambdaInvoke(function, retry_attempts=0),
        )
