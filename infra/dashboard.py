from collections.abc import Iterable, Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from .alarms import quota_metrics, table_metrics
from .core import FAILED, IN_LIMBO, QUEUES, REQUESTS, SETTLEMENTS, Core, Graphs

_WIDTH = 24
"""Width of the dashboard, in columns."""

_P99 = "p99"

_SETTLEMENTS = {
    "Outcomes": ("Settled", "Rejected", "Compensated", "LimboEntered"),
    REQUESTS: (
        *("Claimed", "ClaimTakenOver", "IdempotencyReplay", "IdempotencyConflict"),
        *("IdempotencyKeyMissing", "InvalidRequest"),
    ),
}
_RECOVERIES = (
    *("Recoveries", "RecoveredBySettlement", "RecoveredByCompensation", "RecoveredByAlert"),
    *("RecoveredByExpress", "NotRecovered", "RecoveryCutShort", "RecoveryThrottled", "StartUnavailable"),
)
_STORE = (
    *("TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"),
    "StoreUnavailable",
)


class Dashboard(Construct):
    """The dashboard. Create it last: it shows only alarms that exist by then."""

    def __init__(self, scope: Construct, construct_id: str, core: Core) -> None:
        super().__init__(scope, construct_id)
        board = cloudwatch.Dashboard(
            self,
            "Board",
            dashboard_name=core.name,
            default_interval=Duration.hours(6),
        )
        alarms = sorted(core.pager.alarms, key=lambda alarm: alarm.node.id)
        board.add_widgets(cloudwatch.AlarmStatusWidget(title="Alarms", alarms=alarms, width=_WIDTH, height=6))
        last = {QUEUES: {"Messages to people that SNS could not deliver": core.pager.failed_deliveries}}
        for row in _merged((_of_core(core), *(one.graphs for one in core.added), last)):
            board.add_widgets(*_graphs(row))


def _merged(graphs: Iterable[Graphs]) -> Iterable[Mapping[str, Sequence[cloudwatch.IMetric]]]:
    rows: dict[str, dict[str, list[cloudwatch.IMetric]]] = {}
    for one in graphs:
        for row, titles in one.items():
            for title, metrics in titles.items():
                rows.setdefault(row, {}).setdefault(title, []).extend(metrics)
    return rows.values()


def _of_core(core: Core) -> Graphs:
    pager, functions = core.pager, core.functions
    failing = ["RecoverStalled", *(name for name, one in core.handlers.items() if one.failure)]
    return {
        SETTLEMENTS: {title: pager.metrics(*names) for title, names in _SETTLEMENTS.items()},
        "ages": {
            "Oldest in flight, and recovery behind, in seconds": pager.levels(
                "OldestInFlightSeconds", "RecoveryBehindSeconds"
            ),
            "Oldest in LIMBO, in seconds": pager.levels("OldestLimboSeconds"),
            IN_LIMBO: pager.levels("LimboOpen"),
            "Recovery": pager.metrics(*_RECOVERIES),
        },
        "machines": {
            **{
                machine.node.id: _executions(machine)
                for machine in (core.express, core.standard, core.compensation)
            },
            "Duration of SettlementExpress, in ms": [
                core.express.metric_time(statistic=statistic) for statistic in ("p50", _P99)
            ],
        },
        "functions": {
            "Functions throttled": [one.metric_throttles(label=name) for name, one in functions.items()],
            "Step Functions throttled, the whole account": quota_metrics(),
            FAILED: [
                pager.metric("FunctionFailed"),
                *(functions[name].metric_errors(label=name) for name in failing),
            ],
            "Duration of functions, p99 in ms": [
                one.metric_duration(label=name, statistic=_P99) for name, one in functions.items()
            ],
        },
        "table": {
            "Table and index consumed": table_metrics(
                core.ledger, "ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits"
            ),
            "Table and index throttled": table_metrics(
                core.ledger, "ReadThrottleEvents", "WriteThrottleEvents"
            ),
            "Store": pager.metrics(*_STORE),
        },
    }


def _graphs(row: Mapping[str, Sequence[cloudwatch.IMetric]]) -> list[cloudwatch.IWidget]:
    return [
        cloudwatch.GraphWidget(title=title, left=list(metrics), width=_WIDTH // len(row), height=6)
        for title, metrics in row.items()
    ]


def _executions(machine: sfn.StateMachine) -> list[cloudwatch.Metric]:
    return [
        machine.metric_started(),
        machine.metric_succeeded(),
        machine.metric_failed(),
        machine.metric_timed_out(),
        machine.metric_aborted(),
    ]
