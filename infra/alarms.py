"""The alarms on settlements, executions, queues and throttles. `docs/runbooks/alarms.md` explains each."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_

from infra.doors import StartQueue
from infra.events import Outcomes
from infra.journal import Journal
from infra.kyc import KycRoomSettings, Webhook
from infra.merchants import Merchants
from infra.pager import Pager
from infra.state_machines import STATE_MACHINES, Machine
from infra.table import INDEX, SettlementTable

_MINUTE = Duration.minutes(1)
_FIVE_MINUTES = Duration.minutes(5)

_RECOVERY_SECONDS_MAX = 900
"""The longest pause between two looks of recovery at one settlement, as `policy/recovery.py` has it."""

_BEHIND_SECONDS = 300
"""The time that recovery may need for a backlog: 100,000 settlements, at its default pace."""

_LIMBO_SECONDS = 4 * 3600
"""The time for a decision about LIMBO. The alarm after it is urgent, unlike the one that LIMBO is open."""

_REVIEW_SECONDS = 3600
"""How long before its end recovery counts a review: `REVIEW_ENDS_WITHIN` in `handlers/recover_stalled.py`."""

HTTP = ("KycDecided", "TakeOrder", "ReadSettlements", "AcceptSettlements", "CancelSettlement")
"""The functions that callers reach by HTTP, who get the throttle as a status and repeat the call."""

_COUNTED = {
    "FunctionFailed": (1, "A function failed unexpectedly: a bug, or a malformed answer."),
    "StoreUnavailable": (5, "DynamoDB gives no definite answers."),
    # Nine runs a minute count one each: two minutes in a row.
    "RecoveryCutShort": (10, "Recovery runs out of time before it reaches every settlement that is due."),
    # Counted after the store's own retries. Concurrent payments of one account cause a few.
    "TransactionConflict": (6, "Transactions conflict on the same row."),
}
"""Alarms on metrics of the functions, over five minutes: the threshold and the description."""


@dataclass(frozen=True, kw_only=True)
class Watched:
    """The resources that the alarms and the dashboard show."""

    ledger: SettlementTable
    functions: Mapping[str, lambda_.Function]
    express: Machine
    standard: Machine
    compensation: Machine
    start: StartQueue
    merchants: Merchants
    journal: Journal
    outcomes: Outcomes
    webhook: Webhook


def watch(pager: Pager, watched: Watched, *, settings: KycRoomSettings) -> None:
    """Add the alarms on stalled settlements and on the causes of a stall.

    The functions of states have no alarm on Lambda's metric Errors: they also report a refusal to the machine
    by an error. FunctionFailed counts the other errors, and a function that times out or cannot start makes
    executions fail.
    """
    _ages(pager, settings)
    for name, (threshold, description) in _COUNTED.items():
        pager.alarm(name, pager.metric(name), description, threshold=threshold)
    pager.alarm(
        "Recoveries",
        pager.metric("Recoveries").with_(period=_MINUTE),
        "Many settlements stall within a minute. Recovery takes them over.",
        threshold=20,
    )
    _executions(pager, watched)
    _start_queue(pager, watched.start)
    # These answer a refusal without an error, or meet none: each error is a failure.
    for name in (
        "KycDecided",
        "StartSettlements",
        "AcceptSettlements",
        "CancelSettlement",
        "ReadSettlements",
        "SweepMerchants",
        "PublishEvents",
        "SealJournal",
        "SendPage",
    ):
        pager.alarm(
            f"{name}Failed",
            watched.functions[name].metric_errors(period=_FIVE_MINUTES),
            f"{name} fails, times out or cannot start. Its caller retries.",
        )
    pager.alarm(
        "SignatureRefused",
        pager.metric("SignatureRefused"),
        "Calls of the webhook have no valid signature: the provider has another secret, or a stranger calls.",
        threshold=5,
    )
    if not settings.is_embedded:  # the embedded AWS has no metric math, and throttles nothing
        _throttles(pager, watched)
        pager.watch_deliveries()


def table_metrics(ledger: SettlementTable, *names: str) -> list[cloudwatch.Metric]:
    """Return metrics of DynamoDB, each for the table and for its index, which DynamoDB counts apart."""
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
    """Return the refusals of Step Functions for the account's quotas that bound settlements and reversals.

    Transitions wait until there is room. A refused start or look is a call that its caller repeats.
    """
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


def _ages(pager: Pager, settings: KycRoomSettings) -> None:
    pager.alarm(
        "OldestInFlight",
        pager.metric("OldestInFlightSeconds", statistic="Maximum"),
        "A settlement is in flight for longer than recovery should need, or recovery does not run.",
        threshold=settings.deadline_seconds + _RECOVERY_SECONDS_MAX,
        # Not every run sees a stalled settlement, so the alarm covers the time between two looks at it: the
        # longest pause, and a minute until the next run. Several short periods report missing data sooner
        # than one long period, because CloudWatch waits for more of them.
        periods=_RECOVERY_SECONDS_MAX // 300 + 1,
        missing=cloudwatch.TreatMissingData.BREACHING,
    )
    pager.alarm(
        "RecoveryBehind",
        pager.metric("RecoveryBehindSeconds", statistic="Maximum"),
        "Recovery reaches due settlements five minutes late, or does not look at LIMBO.",
        threshold=_BEHIND_SECONDS,
        missing=cloudwatch.TreatMissingData.BREACHING,  # the run on LIMBO measures it, for all partitions
    )
    levels = [
        ("LimboOpen", "LimboOpen", 1, "Settlements are in LIMBO and wait for a decision."),
        ("LimboAge", "OldestLimboSeconds", _LIMBO_SECONDS, "A case of LIMBO has waited for four hours."),
    ]
    if settings.kyc.review_seconds > _REVIEW_SECONDS:  # else each review would alert from its beginning
        levels.append(
            ("ReviewsEnding", "ReviewsEnding", 1, "A review ends within the hour, and is reversed.")
        )
    for name, metric, threshold, description in levels:
        pager.alarm(
            name,
            pager.metric(metric, statistic="Maximum"),
            description,
            threshold=threshold,
            # While recovery does not run, these are not measured: RecoveryBehind alerts on that.
            missing=cloudwatch.TreatMissingData.IGNORE,
        )


def _executions(pager: Pager, watched: Watched) -> None:
    """Add alarms on executions. A refused request fails its execution too: a few failures are normal."""
    for machine in (watched.express, watched.standard):
        ends = [
            ("Failed", machine.metric_failed(period=_FIVE_MINUTES), 5, "fail"),
            ("TimedOut", machine.metric_timed_out(period=_FIVE_MINUTES), 1, "time out"),
        ]
        if machine is watched.standard:  # AWS has no call that aborts an Express execution
            ends.append(("Aborted", machine.metric_aborted(period=_FIVE_MINUTES), 1, "are aborted"))
        for end, metric, threshold, verb in ends:
            pager.alarm(
                f"{machine.node.id}{end}",
                metric,
                f"Executions of {machine.node.id} {verb}.",
                threshold=threshold,
            )


def _start_queue(pager: Pager, start: StartQueue) -> None:
    pager.alarm(
        "StartDeadLetters",
        start.dead_letters.metric_approximate_number_of_messages_visible(period=_MINUTE, statistic="Maximum"),
        "A message of the start queue will not start a settlement.",
    )
    pager.alarm(
        "StartQueueAge",
        start.queue.metric_approximate_age_of_oldest_message(period=_MINUTE, statistic="Maximum"),
        "Messages of the start queue wait for ten minutes.",
        threshold=600,
    )


def _throttles(pager: Pager, watched: Watched) -> None:
    for group, names in _groups(watched.functions).items():
        pager.alarm(
            f"{group}Throttled",
            _total([watched.functions[name].metric_throttles(period=_FIVE_MINUTES) for name in names]),
            f"Lambda throttles functions: {', '.join(names)}.",
            threshold=5,
        )
    pager.alarm(
        "TableThrottled",
        _total(table_metrics(watched.ledger, "ReadThrottleEvents", "WriteThrottleEvents")),
        "DynamoDB throttles the table or its index.",
        threshold=5,
    )
    pager.alarm(
        "StatesThrottled",
        _total(quota_metrics()),
        "Step Functions throttles transitions, starts or looks: a quota of the account is used up.",
        threshold=5,
    )


def _groups(functions: Mapping[str, lambda_.Function]) -> dict[str, list[str]]:
    """Group the functions by purpose: one alarm takes ten metrics at most."""
    forward, compensating = (
        set(re.findall(r"\$\{(\w+)\}", (STATE_MACHINES / f"{machine}.asl.json").read_text("utf-8")))
        for machine in ("settlement", "compensation")
    )
    return {
        "Forward": [name for name in functions if name in forward],
        "Compensating": [name for name in functions if name in compensating - forward],
        "Http": [name for name in functions if name in HTTP],
        "Triggered": [name for name in functions if name not in forward | compensating | set(HTTP)],
    }


def _total(metrics: Sequence[cloudwatch.IMetric]) -> cloudwatch.MathExpression:
    """Return the sum. A gap counts as 0: otherwise the sum has a gap too, and keeps the alarm's state."""
    named = {f"m{position}": metric for position, metric in enumerate(metrics)}
    return cloudwatch.MathExpression(
        expression=" + ".join(f"FILL({name}, 0)" for name in named),
        using_metrics=named,
        label="total",
        period=_FIVE_MINUTES,
    )
