"""When a person is called: what stops, fails, is throttled or piles up; `alarms.md` says what to do then."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_stepfunctions as sfn

from infra.paging import Paging, settlement_metric
from infra.settings import Settings
from infra.starting import Starting
from infra.state_machines import STATE_MACHINES
from infra.table import INDEX, SettlementTable

_MINUTE = Duration.minutes(1)
_FIVE_MINUTES = Duration.minutes(5)

_RECOVERY_SECONDS_MAX = 900
"""What is stuck is looked at that often at least, by a recovery that backs off."""

_LIMBO_SECONDS = 4 * 3600
"""How long a case of LIMBO may wait for its decision before somebody is called once more."""

_COUNTED = {
    "FunctionFailed": (1, "A function met what it was not written for: a bug, or a broken answer."),
    "StoreUnavailable": (5, "DynamoDB gives no definite answers."),
    # A run that has more to do than it can do tells so for LIMBO and for what is in flight.
    "RecoveryCutShort": (5, "Recovery does not get to all that is due."),
    # The store has tried again by then: a few are the price of two payments of one account at once.
    "TransactionConflict": (6, "Transactions on the same row get in each other's way."),
}
"""Alarms on what the functions count, over five minutes: how many are too many, and what that means."""


@dataclass(frozen=True, kw_only=True)
class Watched:
    """What the alarms and the dashboard look at."""

    ledger: SettlementTable
    functions: Mapping[str, lambda_.Function]
    express: sfn.StateMachine
    standard: sfn.StateMachine
    compensation: sfn.StateMachine
    starting: Starting


def watch(paging: Paging, watched: Watched, *, settings: Settings) -> None:
    """Page about settlements that stand still, and about whatever keeps them from moving.

    Lambda's own Errors are no alarm on the functions of states: a refusal is an error there as well, by which
    the machine hears of it. FunctionFailed counts the others. What makes a function time out or not even
    start shows as executions that fail.
    """
    _ages(paging, settings)
    for name, (threshold, description) in _COUNTED.items():
        paging.alarm(name, settlement_metric(name), description, threshold=threshold)
    paging.alarm(
        "Recoveries",
        settlement_metric("Recoveries").with_(period=_MINUTE),
        "Settlements stop moving faster than by accident; recovery takes them on.",
        threshold=20,
    )
    _executions(paging, watched)
    _starting(paging, watched.starting)
    # These two answer for what they refuse, so nothing but what should never happen is an error of theirs.
    for name in ("KycDecided", "StartSettlements"):
        paging.alarm(
            f"{name}Failed",
            watched.functions[name].metric_errors(period=_FIVE_MINUTES),
            f"{name} fails, runs out of time or does not even start; whoever called it tries again.",
        )
    if not settings.interpreter:  # the embedded AWS knows no sums of metrics, and throttles nothing
        _throttles(paging, watched)


def table_metrics(ledger: SettlementTable, *names: str) -> list[cloudwatch.Metric]:
    """Metrics of DynamoDB, each for the table and for its index, which count apart; sums of five minutes."""
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


def _ages(paging: Paging, settings: Settings) -> None:
    paging.alarm(
        "OldestInFlight",
        settlement_metric("OldestInFlightSeconds", statistic="Maximum"),
        "A settlement has been in motion for longer than recovery should need, or recovery is dead.",
        threshold=settings.deadline_seconds + _RECOVERY_SECONDS_MAX,
        # Not every run finds what is stuck, so all of the time between two looks at it counts, which is a
        # minute more than its bound. Several short periods tell sooner of missing data than one of that
        # length: CloudWatch waits for more of them.
        periods=_RECOVERY_SECONDS_MAX // 300 + 1,
        missing=cloudwatch.TreatMissingData.BREACHING,
    )
    for name, metric, threshold, description in (
        ("LimboOpen", "LimboOpen", 1, "Settlements are in LIMBO and wait for a person's decision."),
        ("LimboAge", "OldestLimboSeconds", _LIMBO_SECONDS, "A case of LIMBO has waited for hours."),
    ):
        paging.alarm(
            name,
            settlement_metric(metric, statistic="Maximum"),
            description,
            threshold=threshold,
            # Where recovery does not run, nobody has left LIMBO: OldestInFlight tells that it does not.
            missing=cloudwatch.TreatMissingData.IGNORE,
        )


def _executions(paging: Paging, watched: Watched) -> None:
    """A refused request fails its execution too: a few are no news. Nobody can abort an Express one."""
    for machine in (watched.express, watched.standard):
        ends = [
            ("Failed", machine.metric_failed(period=_FIVE_MINUTES), 5),
            ("TimedOut", machine.metric_timed_out(period=_FIVE_MINUTES), 1),
        ]
        if machine is watched.standard:
            ends.append(("Aborted", machine.metric_aborted(period=_FIVE_MINUTES), 1))
        for end, metric, threshold in ends:
            paging.alarm(
                f"{machine.node.id}{end}",
                metric,
                f"Executions of {machine.node.id} ended: {end}.",
                threshold=threshold,
            )


def _starting(paging: Paging, starting: Starting) -> None:
    paging.alarm(
        "StartDeadLetters",
        starting.dead_letters.metric_approximate_number_of_messages_visible(
            period=_MINUTE, statistic="Maximum"
        ),
        "A settlement that was asked for by message will not be started.",
    )
    paging.alarm(
        "StartQueueAge",
        starting.queue.metric_approximate_age_of_oldest_message(period=_MINUTE, statistic="Maximum"),
        "Settlements that were asked for by message are not started.",
        threshold=600,
    )


def _throttles(paging: Paging, watched: Watched) -> None:
    for group, names in _groups(watched.functions).items():
        paging.alarm(
            f"{group}Throttled",
            _total([watched.functions[name].metric_throttles(period=_FIVE_MINUTES) for name in names]),
            f"Lambda throttles functions: {', '.join(names)}.",
            threshold=5,
        )
    paging.alarm(
        "TableThrottled",
        _total(table_metrics(watched.ledger, "ReadThrottleEvents", "WriteThrottleEvents")),
        "DynamoDB throttles the table or its index.",
        threshold=5,
    )


def _groups(functions: Mapping[str, lambda_.Function]) -> dict[str, list[str]]:
    """The functions by what they are for, since one alarm takes ten metrics at most."""
    forward, compensating = (
        set(re.findall(r"\$\{(\w+)\}", (STATE_MACHINES / f"{machine}.asl.json").read_text()))
        for machine in ("settlement", "compensation")
    )
    return {
        "Forward": [name for name in functions if name in forward],
        "Compensating": [name for name in functions if name in compensating - forward],
        "Triggered": [name for name in functions if name not in forward | compensating],
    }


def _total(metrics: Sequence[cloudwatch.IMetric]) -> cloudwatch.MathExpression:
    """Their sum. A gap counts as 0: it would make a gap of the sum, and DynamoDB's keep an alarm on."""
    named = {f"m{position}": metric for position, metric in enumerate(metrics)}
    return cloudwatch.MathExpression(
        expression=" + ".join(f"FILL({name}, 0)" for name in named),
        using_metrics=named,
        label="total",
        period=_FIVE_MINUTES,
    )
