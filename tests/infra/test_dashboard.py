import json
import re
from typing import Any

from infra.config import STAGES
from tests.infra.alarms import SUMS, counted, of_stage
from tests.infra.stack import FUNCTIONS, MACHINES, each_stage, machines, only, resources

LEVELS = {
    *("OldestInFlightSeconds", "RecoveryBehindSeconds", "OldestLimboSeconds"),
    *("LimboOpen", "ReviewsEnding", "KycCircuit"),
    *("ReconcileFaults", "ReconcileUnproven", "ReconciledRows", "ListedAhead"),
}
"""The functions' own metrics that are levels, not counts."""

OF_OPTIONS = {
    *("StatementFaults", "StatementMissing"),
    *("PayoutCases", "PayoutLookLateSeconds", "PayoutLineFaults", "BankCircuit", "PayRunsWaiting"),
}
"""Levels of stages that read the bank's statements or pay out."""

SHOWN = LEVELS | {
    *("Settled", "Rejected", "Compensated", "LimboEntered"),
    *("Claimed", "IdempotencyReplay", "IdempotencyConflict", "IdempotencyKeyMissing"),
    *("Recoveries", "RecoveredBySettlement", "RecoveredByCompensation", "RecoveredByAlert"),
    *("RecoveredByExpress", "RecoveryCutShort", "RecoveryThrottled"),
    *("FunctionFailed", "TransactionConflict", "StoreUnavailable"),
    *("KycCircuitOpen", "KycUnavailable", "KycRejected", "KycReview", "KycCircuitClockAhead"),
}
"""The functions' own metrics that a person on call needs first."""

MACHINES_SHOWN = {f"${{{machine}}}" for machine in MACHINES}
FUNCTIONS_SHOWN = {f"${{{function}}}" for function in FUNCTIONS}
OF_ALL = {
    "Throttles": FUNCTIONS_SHOWN,
    "Duration": FUNCTIONS_SHOWN,
    "ExecutionsStarted": MACHINES_SHOWN,
    "ExecutionsFailed": MACHINES_SHOWN,
    "ExecutionsTimedOut": MACHINES_SHOWN,
    "ExecutionsAborted": MACHINES_SHOWN,
    "ExecutionTime": {"${SettlementExpress}"},
}

OF_THE_TABLE = (
    *("ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits"),
    *("ReadThrottleEvents", "WriteThrottleEvents"),
)


def widgets(stage: str) -> list[Any]:
    found: list[Any] = json.loads(only(stage, "CloudWatch::Dashboard")["DashboardBody"])["widgets"]
    return found


def metrics(stage: str) -> list[list[Any]]:
    return [line for one in widgets(stage) for line in one["properties"].get("metrics", ())]


@each_stage
def test_the_dashboard_shows_every_alarm_its_state_and_its_metric(stage: str) -> None:
    (found,) = (one["properties"]["alarms"] for one in widgets(stage) if one["type"] == "alarm")
    watched = {(alarm.namespace, alarm.metric) for alarm in of_stage(stage).values()}
    watched |= {(namespace, metric) for namespace, names in SUMS.values() for metric in names}

    assert sorted(found) == sorted(f"${{{alarm}.Arn}}" for alarm in resources(stage, "CloudWatch::Alarm"))
    assert sorted(watched - {(line[0], line[1]) for line in metrics(stage)}) == []


@each_stage
def test_the_dashboard_graphs_only_metrics_that_the_functions_publish(stage: str) -> None:
    """An unwritten metric's graph looks healthy.

    Levels are not summed, because five measurements of one case would show five cases.
    """
    ours = [line for line in metrics(stage) if line[0] == "Settlement"]

    assert sorted(SHOWN - {line[1] for line in ours}) == []
    assert sorted({line[1] for line in ours} - counted()) == []
    for _, metric, *dimension, options in ours:
        assert dimension == ["service", STAGES[stage].stack_name], metric
        assert options["stat"] == ("Maximum" if metric in LEVELS | OF_OPTIONS else "Sum"), metric


@each_stage
def test_the_dashboard_shows_every_function_machine_queue_and_index(stage: str) -> None:
    queues = {f"${{{queue}.QueueName}}" for queue in resources(stage, "SQS::Queue")}
    started = {f"${{{machine}}}" for machine in machines(stage)}
    shown = OF_ALL | {metric: started for metric in OF_ALL if OF_ALL[metric] is MACHINES_SHOWN}

    for metric, expected in (shown | {"ApproximateNumberOfMessagesVisible": queues}).items():
        assert {line[3] for line in metrics(stage) if line[1] == metric} == expected, metric
    for metric in OF_THE_TABLE:  # by the table alone, and by the table and its index
        found = [len(line[2:-1]) // 2 for line in metrics(stage) if line[1] == metric]
        assert sorted(found) == [1, 2], metric


@each_stage
def test_the_dashboard_names_its_stack_but_no_region_or_account(stage: str) -> None:
    found = only(stage, "CloudWatch::Dashboard")

    assert found["DashboardName"] == f"settlement-{stage}"
    assert {one["properties"].get("region") for one in widgets(stage)} <= {None, "${AWS::Region}"}
    assert re.findall(r"\d{12}|[a-z]{2}-[a-z]+-\d", found["DashboardBody"]) == []


@each_stage
def test_the_dashboards_rows_are_full_and_graphs_do_not_overlap(stage: str) -> None:
    rows: dict[int, int] = {}
    for one in widgets(stage):
        assert one["x"] == rows.get(one["y"], 0)
        rows[one["y"]] = one["x"] + one["width"]

    assert set(rows.values()) == {24}
