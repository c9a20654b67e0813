"""The stage's dashboard: settlements, recovery, and the services that they depend on."""

from collections.abc import Mapping, Sequence

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.alarms import Watched, quota_metrics, table_metrics
from infra.pager import Pager

_WIDTH = 24
"""The dashboard's width, in columns."""

_P99 = "p99"

_SETTLEMENTS = {
    "Outcomes": ("Settled", "Rejected", "Compensated", "LimboEntered"),
    "Requests": (
        *("Claimed", "ClaimTakenOver", "IdempotencyReplay", "IdempotencyConflict"),
        *("IdempotencyKeyMissing", "InvalidRequest", "StartRefused"),
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
_KYC = (
    *("KycUnavailable", "KycCircuitOpen", "KycRequestRefused", "KycRejected", "KycReview"),
    *("KycVerdictConflict", "KycSecretUnreadable", "SignatureRefused", "KycCircuitClockAhead"),
)
_TRIGGERED = (
    *("RecoverStalled", "KycDecided", "StartSettlements", "AcceptSettlements"),
    *("CancelSettlement", "ReadSettlements", "SweepMerchants"),
    *("PublishEvents", "SendPage", "SealJournal", "ReconcileBooks"),
)
"""The functions whose errors are all failures. The functions of states refuse by errors."""


class Dashboard(Construct):
    """The dashboard under the stack's name. Create it last: it shows the alarms that exist by then."""

    def __init__(self, scope: Construct, construct_id: str, watched: Watched, *, pager: Pager) -> None:
        super().__init__(scope, construct_id)
        board = cloudwatch.Dashboard(
            self,
            "Board",
            dashboard_name=Stack.of(self).stack_name,
            default_interval=Duration.hours(6),
        )
        board.add_widgets(
            cloudwatch.AlarmStatusWidget(
                title="Alarms",
                alarms=sorted(pager.alarms, key=lambda alarm: alarm.node.id),
                width=_WIDTH,
                height=6,
            )
        )
        for row in (
            {title: _counts(pager, names) for title, names in _SETTLEMENTS.items()},
            {
                "Oldest in flight, and recovery behind, in seconds": [
                    _highest(pager, "OldestInFlightSeconds"),
                    _highest(pager, "RecoveryBehindSeconds"),
                ],
                "Oldest in LIMBO, in seconds": [_highest(pager, "OldestLimboSeconds")],
                "In LIMBO, and reviews that end within the hour": [
                    _highest(pager, "LimboOpen"),
                    _highest(pager, "ReviewsEnding"),
                ],
                "Recovery": _counts(pager, _RECOVERIES),
            },
            {
                **{
                    machine.node.id: _executions(machine)
                    for machine in (watched.express, watched.standard, watched.compensation)
                },
                "Duration of SettlementExpress, in ms": [
                    watched.express.metric_time(statistic=statistic) for statistic in ("p50", _P99)
                ],
            },
            {
                "Functions throttled": [
                    one.metric_throttles(label=name) for name, one in watched.functions.items()
                ],
                "Step Functions throttled, the whole account": quota_metrics(),
                "Functions failed": [
                    pager.metric("FunctionFailed"),
                    *(watched.functions[name].metric_errors(label=name) for name in _TRIGGERED),
                ],
                "Duration of functions, p99 in ms": [
                    one.metric_duration(label=name, statistic=_P99) for name, one in watched.functions.items()
                ],
            },
            {
                "Table and index consumed": table_metrics(
                    watched.ledger, "ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits"
                ),
                "Table and index throttled": table_metrics(
                    watched.ledger, "ReadThrottleEvents", "WriteThrottleEvents"
                ),
                "Store": _counts(pager, _STORE),
            },
            {
                "KYC circuit, 1 while it is open": [_highest(pager, "KycCircuit")],
                "KYC answers": _counts(pager, _KYC),
                "Calls that the webhook refused": [watched.webhook.refused],
            },
            {
                "Start queue": [_waiting(watched.start.queue, "waiting")],
                "Start queue, oldest in seconds": [
                    watched.start.queue.metric_approximate_age_of_oldest_message(statistic="Maximum")
                ],
                "Dead letters": [
                    _waiting(watched.start.dead_letters, "not started"),
                    _waiting(watched.merchants.given_up, "sweeps given up"),
                    _waiting(watched.outcomes.put_aside, "events that cannot be told"),
                    _waiting(watched.outcomes.given_up, "events given up"),
                    _waiting(pager.undelivered, "alerts not delivered"),
                    _waiting(watched.journal.given_up, "rows not in the sealed journal"),
                ],
                "Messages to people that SNS could not deliver": pager.failed_deliveries,
            },
            {
                "Sweeps of merchants": _counts(pager, ("MerchantSwept",)),
                "Releases that wait for their sweep": [_waiting(watched.merchants.queue, "waiting")],
                "Sweeps behind, in seconds": [watched.merchants.age],
            },
            {
                "Outcome events": _counts(pager, ("EventsPublished",)),
                "Outcome events behind, in ms": [watched.outcomes.age],
            },
            {
                "Rows changed that never change": _counts(pager, ("JournalTampered",)),
                "Sealed journal behind, in ms": [watched.journal.age],
            },
            {
                "Proof of the books: faults and unproven": [
                    _highest(pager, "ReconcileFaults"),
                    _highest(pager, "ReconcileUnproven"),
                ],
                "Proof of the books: rows": [_highest(pager, "ReconciledRows")],
                "Proof of the books: listed an hour ahead": [_highest(pager, "ListedAhead")],
            },
        ):
            board.add_widgets(*_graphs(row))


def _graphs(row: Mapping[str, Sequence[cloudwatch.IMetric]]) -> list[cloudwatch.IWidget]:
    """Return one graph for each title, side by side over the width of the dashboard."""
    return [
        cloudwatch.GraphWidget(title=title, left=list(metrics), width=_WIDTH // len(row), height=6)
        for title, metrics in row.items()
    ]


def _counts(pager: Pager, names: Sequence[str]) -> list[cloudwatch.Metric]:
    return [pager.metric(name) for name in names]


def _highest(pager: Pager, name: str) -> cloudwatch.Metric:
    return pager.metric(name, statistic="Maximum")


def _executions(machine: sfn.StateMachine) -> list[cloudwatch.Metric]:
    return [
        machine.metric_started(),
        machine.metric_succeeded(),
        machine.metric_failed(),
        machine.metric_timed_out(),
        machine.metric_aborted(),
    ]


def _waiting(queue: sqs.IQueue, label: str) -> cloudwatch.Metric:
    return queue.metric_approximate_number_of_messages_visible(label=label, statistic="Maximum")
