from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from .core import FAILED, Added, Core, Room
from .grants import Handler, allow
from .settings import CoreSettings
from .urgency import Urgency

MEMORY_MB = 1_769
"""Memory that brings a whole CPU; a proof needs at most 100 MB."""

DISK_GB = 10
"""Lambda's maximum. At 400 bytes a row, no run can fill it."""

PERIODS = 2
"""Periods without a proof before a person looks. One run may be cut off, or meet a busy account."""


@dataclass(frozen=True, kw_only=True)
class ProofSettings(CoreSettings):
    """See docs/decisions/2026-11-22-scheduled-proof.md."""

    reconcile_every_hours: int | None = 24

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reconcile_every_hours is not None and not 1 <= self.reconcile_every_hours <= 24:
            raise ValueError("reconcile_every_hours: must be from 1 to 24, or None")


class Reconciliation(Construct):
    """The proof's schedule and alarms. A failed run is not repeated: each run reads the whole table."""

    def __init__(self, core: Core, settings: ProofSettings) -> None:
        super().__init__(core.scope, "Reconciliation")
        function, pager = core.functions["ReconcileBooks"], core.pager
        function.add_environment("TMPDIR", "/tmp")  # noqa: S108 (the one place where Lambda lets it write)
        function.configure_async_invoke(retry_attempts=0, max_event_age=Duration.minutes(15))
        pager.alarm(
            "ReconcileFaults",
            pager.metric("ReconcileFaults", statistic="Maximum"),
            "Rows contradict each other: money was lost or made, or a row was changed by hand.",
        )
        pager.alarm(
            "ListedAhead",
            pager.metric("ListedAhead", statistic="Maximum"),
            "A wrong clock has listed settlements over an hour ahead: no recovery sees them until then.",
        )
        pager.alarm(
            "ReconcileBooksFailed",
            function.metric_errors(period=Duration.minutes(5), statistic="Sum"),
            "The proof of the books fails, times out or cannot start. The next run is the next try.",
            urgency=Urgency.MORNING,
        )
        if settings.reconcile_every_hours is None:
            return
        every = Duration.hours(settings.reconcile_every_hours)
        scheduler.Schedule(
            self,
            "Proof",
            schedule=scheduler.ScheduleExpression.rate(every),
            target=targets.LambdaInvoke(function, retry_attempts=0),
        )
        pager.alarm(
            "ReconcileUnproven",
            pager.metric("ReconcileUnproven", statistic="Minimum").with_(period=every),
            "In two periods no run has proven the whole table: each was cut off, or none has run.",
            periods=PERIODS,
            in_all_periods=True,
            missing=cloudwatch.TreatMissingData.BREACHING,
            urgency=Urgency.MORNING,
        )


def build(core: Core, settings: ProofSettings) -> Added:
    function = core.functions["ReconcileBooks"]
    Reconciliation(core, settings)
    return Added(
        graphs={
            "functions": {FAILED: [function.metric_errors(label="ReconcileBooks")]},
            "proof": {
                "Proof of the books: faults and unproven": core.pager.levels(
                    "ReconcileFaults", "ReconcileUnproven"
                ),
                "Proof of the books: rows": core.pager.levels("ReconciledRows"),
                "Proof of the books: listed an hour ahead": core.pager.levels("ListedAhead"),
            },
        },
        tries=[allow("Proof", ["lambda:InvokeFunction"], [function.function_arn])],
    )


ROOM = Room(
    build=build,
    handlers={
        "ReconcileBooks": Handler(
            lists=True, reads_all=True, seconds=900, memory_mb=MEMORY_MB, disk_gb=DISK_GB
        ),
    },
)
