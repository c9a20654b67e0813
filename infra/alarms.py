"""The core's alarms. `docs/runbooks/alarms.md` explains them."""

import re
from collections.abc import Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from .assets import STATE_MACHINES
from .core import Core
from .grants import Handler
from .pager import Pager
from .settings import CoreSettings
from .table import INDEX, SettlementTable
from .urgency import Urgency

_MINUTE = Duration.minutes(1)
_FIVE_MINUTES = Duration.minutes(5)

_RECOVERY_SECONDS_MAX = 900
"""Recovery's longest pause: `BACKOFF_SECONDS_MAX` in `core/policy/recovery.py`."""

_BEHIND_SECONDS = 300
"""Time to clear a backlog of 100,000 settlements at the default pace."""

_LIMBO_SECONDS = 4 * 3600
"""Time for a decision before the urgent alarm LimboAge. LimboOpen is not urgent."""

_COUNTED = {
    "FunctionFailed": (1, "A function failed unexpectedly: a bug, or a malformed answer.", Urgency.NOW),
    "StoreUnavailable": (5, "DynamoDB gives no definite answers.", Urgency.NOW),
    # Each of nine runs a minute counts at most one, so ten mean two minutes in a row.
    "RecoveryCutShort": (
        10,
        "Recovery runs out of time before it reaches every settlement that is due.",
        Urgency.NOW,
    ),
    # Counted after the store's own retries. Concurrent payments of one account cause a few.
    "TransactionConflict": (6, "Transactions conflict on the same row.", Urgency.INFORMATION),
}
"""Counted metrics. Each has a threshold over five minutes, a description and an urgency."""


def watch(core: Core, *, settings: CoreSettings) -> None:
    """Add the core's alarms. Call it after the rooms are built.

    Refusals are errors of the machines' functions, so their metric Errors has no alarm. FunctionFailed counts
    unexpected errors. A timeout fails the execution.
    """
    pager = core.pager
    _ages(pager, settings)
    for name, (threshold, description, urgency) in _COUNTED.items():
        pager.alarm(name, pager.metric(name), description, threshold=threshold, urgency=urgency)
    pager.alarm(
        "Recoveries",
        pager.metric("Recoveries").with_(period=_MINUTE),
        "Many settlements stall within a minute. Recovery takes them over.",
        threshold=20,
    )
    _executions(core)
    for name, handler in core.handlers.items():
        if handler.failure is not None:
            pager.alarm(
                f"{name}Failed",
                core.functions[name].metric_errors(period=_FIVE_MINUTES),
                f"{name} fails, times out or cannot start. Its caller retries.",
                urgency=handler.failure,
            )
    if not settings.is_embedded:  # the embedded AWS has no metric math, and throttles nothing
        _throttles(core)
        pager.watch_deliveries()
    for machine in (core.express, core.standard):
        if machine.live:
            machine.live.stopped_by(pager.alarms)


def table_metrics(ledger: SettlementTable, *names: str) -> list[cloudwatch.Metric]:
    """Return metrics of the table and its index. DynamoDB counts them separately."""
    table = {"TableName": ledger.table.table_name}
    return [
        cloudwatch.Metric(
            namespace="AWS/DynamoDB",
            metric_name=name,
            dimensions_map=dimensions,
            statistic="Sum",
            period=_FIVE_MINUTES,
        )
        for name in names
        for dimensions in (table, table | {"GlobalSecondaryIndexName": INDEX})
    ]


def quota_metrics() -> list[cloudwatch.Metric]:
    """Return metrics of throttling. Step Functions delays transitions; callers repeat throttled calls."""
    return [
        cloudwatch.Metric(
            namespace="AWS/States",
            metric_name="ThrottledEvents",
            dimensions_map={dimension: value},
            label=value,
            statistic="Sum",
            period=_FIVE_MINUTES,
        )
        for dimension, value in (
            ("ServiceMetric", "StateTransition"),
            ("APIName", "StartExecution"),
            ("APIName", "DescribeExecution"),
        )
    ]


def _ages(pager: Pager, settings: CoreSettings) -> None:
    pager.alarm(
        "OldestInFlight",
        pager.metric("OldestInFlightSeconds", statistic="Maximum"),
        "A settlement is in flight for longer than recovery should need, or recovery does not run.",
        threshold=settings.deadline_seconds + _RECOVERY_SECONDS_MAX,
        # Not every run sees a stalled settlement, so the alarm covers the longest pause between two looks,
        # and a minute until the next run. Several short periods report missing data sooner
        # than one long period, because CloudWatch waits for more of them.
        periods=_RECOVERY_SECONDS_MAX // 300 + 1,
        missing=cloudwatch.TreatMissingData.BREACHING,
    )
    pager.alarm(
        "RecoveryBehind",
        pager.metric("RecoveryBehindSeconds", statistic="Maximum"),
        "Recovery reaches due settlements five minutes late, or does not look at LIMBO.",
        threshold=_BEHIND_SECONDS,
        missing=cloudwatch.TreatMissingData.BREACHING,  # the run on LIMBO measures all partitions
    )
    pager.level(
        "LimboOpen", "LimboOpen", "Settlements are in LIMBO and wait for a decision.", urgency=Urgency.MORNING
    )
    pager.level(
        "LimboAge",
        "OldestLimboSeconds",
        "A case of LIMBO has waited for four hours.",
        threshold=_LIMBO_SECONDS,
    )


def _executions(core: Core) -> None:
    """Add alarms on failed executions. A few failures are normal, such as refused requests."""
    for machine, late in ((core.express, Urgency.INFORMATION), (core.standard, Urgency.MORNING)):
        # Recoveries counts the settlements that stall.
        failed, timed_out = (
            one(period=_FIVE_MINUTES) for one in (machine.metric_failed, machine.metric_timed_out)
        )
        ends = [
            ("Failed", failed, 5, "fail", Urgency.INFORMATION),
            ("TimedOut", timed_out, 1, "time out", late),
        ]
        if machine is core.standard:  # AWS has no call that aborts an Express execution
            ends.append(("Aborted", machine.metric_aborted(period=_FIVE_MINUTES), 1, "are aborted", late))
        for end, metric, threshold, verb, urgency in ends:
            core.pager.alarm(
                f"{machine.node.id}{end}",
                metric,
                f"Executions of {machine.node.id} {verb}.",
                threshold=threshold,
                urgency=urgency,
            )


def _throttles(core: Core) -> None:
    for group, names in _groups(core.handlers).items():
        core.pager.alarm(
            f"{group}Throttled",
            _total([core.functions[name].metric_throttles(period=_FIVE_MINUTES) for name in names]),
            f"Lambda throttles functions: {', '.join(names)}.",
            threshold=5,
        )
    core.pager.alarm(
        "TableThrottled",
        _total(table_metrics(core.ledger, "ReadThrottleEvents", "WriteThrottleEvents")),
        "DynamoDB throttles the table or its index.",
        threshold=5,
    )
    core.pager.alarm(
        "StatesThrottled",
        _total(quota_metrics()),
        "Step Functions throttles transitions, starts or looks: a quota of the account is used up.",
        threshold=5,
        # Recovery after an outage uses up the quota on purpose. Other alarms watch payments that wait.
        urgency=Urgency.MORNING,
    )


def _groups(handlers: Mapping[str, Handler]) -> dict[str, list[str]]:
    """Group functions by purpose: an alarm takes at most ten metrics."""
    forward, compensating = (
        set(re.findall(r"\$\{(\w+)\}", (STATE_MACHINES / f"{machine}.asl.json").read_text("utf-8")))
        for machine in ("settlement", "compensation")
    )
    groups: dict[str, list[str]] = {"Forward": [], "Compensating": [], "Http": [], "Triggered": []}
    for name, handler in handlers.items():
        if name in forward | compensating:
            groups["Forward" if name in forward else "Compensating"].append(name)
        else:
            groups["Http" if handler.by_http else "Triggered"].append(name)
    return {group: names for group, names in groups.items() if names}


def _total(metrics: Sequence[cloudwatch.IMetric]) -> cloudwatch.MathExpression:
    """Return the sum of metrics. A gap counts as 0; otherwise the alarm would keep its state."""
    named = {f"m{position}": metric for position, metric in enumerate(metrics)}
    return cloudwatch.MathExpression(
        expression=" + ".join(f"FILL({name}, 0)" for name in named),
        using_metrics=named,
        label="total",
        period=_FIVE_MINUTES,
    )
