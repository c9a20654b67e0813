from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from .concurrency import IN_FLIGHT_SHARDS
from .pager import Pager
from .settings import CoreSettings

PARTITIONS = ("LIMBO", *(f"IN_FLIGHT#{shard}" for shard in range(IN_FLIGHT_SHARDS)))
"""The index's partitions. Each has a schedule, so no run waits for another or fails with it."""


class Recovery(Construct):
    """Recovery's schedules and alarms. A failed run is not retried: the next run is a minute away."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        function: lambda_.Function,
        pager: Pager,
        settings: CoreSettings,
    ) -> None:
        super().__init__(scope, construct_id)
        function.configure_async_invoke(retry_attempts=0, max_event_age=Duration.minutes(1))
        pace = settings.recovery_starts_per_second / IN_FLIGHT_SHARDS
        function.add_environment("STARTS_PER_SECOND", f"{pace:g}")
        for partition in PARTITIONS:
            scheduler.Schedule(
                self,
                f"EachMinute{partition.removeprefix('IN_FLIGHT#').capitalize()}",
                schedule=scheduler.ScheduleExpression.rate(Duration.minutes(1)),
                target=targets.LambdaInvoke(
                    function,
                    input=scheduler.ScheduleTargetInput.from_object({"partition": partition}),
                    retry_attempts=0,
                ),
            )
        pager.alarm(
            "RecoveryFailed",
            function.metric_errors(period=Duration.minutes(5), statistic="Sum"),
            "Recovery fails: stalled settlements are not resumed.",
            threshold=3,  # a failing partition causes five; a person's call may cause one
        )
        pager.alarm(
            "NotRecovered",
            pager.metric("NotRecovered"),
            "Recovery cannot resume a stalled settlement.",
        )
