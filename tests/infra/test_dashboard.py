"""The dashboard shows the metrics of the alarms and the rate of settlements, and each has a writer."""

import json
import re
from typing import Any

import pytest

from tests.infra.alarms import ALARMS, SUMS, counted
from tests.infra.iam import text
from tests.infra.machines import MACHINES, each_stage, function_id, logical_id
from tests.infra.test_functions import FUNCTIONS
from tests.support import templates

SHOWN = {
    *("Settled", "Rejected", "Compensated", "LimboEntered"),
    *("Claimed", "IdempotencyReplay", "IdempotencyConflict", "IdempotencyKeyMissing"),
    *("OldestInFlightSeconds", "OldestLimboSeconds", "LimboOpen"),
    *("Recoveries", "RecoveredBySettlement", "RecoveredByCompensation", "RecoveredByAlert"),
    *("FunctionFailed", "TransactionConflict", "StoreUnavailable"),
    *("KycCircuit", "KycCircuitOpen", "KycUnavailable", "KycRejected", "KycReview"),
}
"""The functions' own metrics that a person on call needs first."""

OF_FUNCTIONS = ("Throttles", "Duration")
OF_MACHINES = ("ExecutionsStarted", "ExecutionsFailed", "ExecutionsTimedOut", "ExecutionsAborted")
OF_THE_TABLE = (
    *("ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits"),
    *("ReadThrottleEvents", "WriteThrottleEvents"),
)


def dashboard(stage: str) -> Any:
    (found,) = templates.resources("AWS::CloudWatch::Dashboard", stage).values()
    return found["Properties"]


def widgets(stage: str) -> list[Any]:
    found: list[Any] = json.loads(text(dashboard(stage)["DashboardBody"]))["widgets"]
    return found


def metrics(stage: str) -> list[list[Any]]:
    """Return each line of each graph: namespace, name, dimensions, and options."""
    return [line for one in widgets(stage) for line in one["properties"].get("metrics", ())]


def lines(stage: str, metric: str) -> set[str]:
    """Return the values of a metric's first dimension in all graphs."""
    return {line[3] for line in metrics(stage) if line[1] == metric}


@each_stage
def test_the_dashboard_has_the_stacks_name(stage: str) -> None:
    assert dashboard(stage)["DashboardName"] == f"settlement-{stage}"


@each_stage
def test_the_dashboard_shows_the_state_of_every_alarm(stage: str) -> None:
    (found,) = (one["properties"]["alarms"] for one in widgets(stage) if one["type"] == "alarm")
    alarms = templates.resources("AWS::CloudWatch::Alarm", stage)

    assert sorted(found) == sorted(f"${{{alarm}.Arn}}" for alarm in alarms)


@each_stage
def test_the_dashboard_shows_the_metric_of_every_alarm(stage: str) -> None:
    """The person on call wants to see when it began, and what else changed then."""
    watched = {(namespace, metric) for namespace, metric, _ in ALARMS.values()}
    watched |= {(namespace, metric) for namespace, names in SUMS.values() for metric in names}

    assert sorted(watched - {(line[0], line[1]) for line in metrics(stage)}) == []


@each_stage
def test_the_dashboard_shows_how_settlements_fare(stage: str) -> None:
    ours = {line[1] for line in metrics(stage) if line[0] == "Settlement"}

    assert sorted(ours & SHOWN) == sorted(SHOWN)


@each_stage
def test_every_metric_of_our_own_that_is_shown_is_counted(stage: str) -> None:
    """The graph of a metric that no function writes is empty, and so looks well."""
    ours = [line for line in metrics(stage) if line[0] == "Settlement"]

    assert sorted({line[1] for line in ours} - counted()) == []
    assert {tuple(line[2:4]) for line in ours} == {("service", "settlement")}


@each_stage
@pytest.mark.parametrize("metric", OF_FUNCTIONS)
def test_every_function_is_shown(stage: str, metric: str) -> None:
    assert lines(stage, metric) == {f"${{{function_id(stage, one)}}}" for one in FUNCTIONS}


@each_stage
@pytest.mark.parametrize("metric", OF_MACHINES)
def test_every_machine_is_shown(stage: str, metric: str) -> None:
    assert lines(stage, metric) == {f"${{{logical_id(stage, one)}}}" for one in MACHINES}


@each_stage
def test_how_long_an_express_execution_takes_is_shown(stage: str) -> None:
    assert lines(stage, "ExecutionTime") == {f"${{{logical_id(stage, 'SettlementExpress')}}}"}


@each_stage
@pytest.mark.parametrize("metric", OF_THE_TABLE)
def test_the_table_and_its_index_are_shown(stage: str, metric: str) -> None:
    found = [line[2:-1] for line in metrics(stage) if line[1] == metric]

    assert sorted(len(dimensions) // 2 for dimensions in found) == [1, 2]


@each_stage
def test_every_queue_is_shown(stage: str) -> None:
    queues = templates.resources("AWS::SQS::Queue", stage)

    assert lines(stage, "ApproximateNumberOfMessagesVisible") == {f"${{{one}.QueueName}}" for one in queues}


@each_stage
def test_a_level_is_shown_as_it_is_and_a_count_as_a_sum(stage: str) -> None:
    """The sum of five measurements of one case of LIMBO would be five cases."""
    levels = {"OldestInFlightSeconds", "OldestLimboSeconds", "LimboOpen", "KycCircuit"}

    for line in metrics(stage):
        if line[0] == "Settlement":
            assert line[-1]["stat"] == ("Maximum" if line[1] in levels else "Sum"), line


@each_stage
def test_the_dashboard_names_no_region_and_no_account(stage: str) -> None:
    """It is the same in each, and shows the one that it is deployed to."""
    body = text(dashboard(stage)["DashboardBody"])

    assert {one["properties"].get("region") for one in widgets(stage)} <= {None, "${AWS::Region}"}
    assert re.findall(r"\d{12}|[a-z]{2}-[a-z]+-\d", body) == []


@each_stage
def test_the_rows_fill_the_dashboard_and_no_graphs_overlap(stage: str) -> None:
    rows: dict[int, int] = {}
    for one in widgets(stage):
        assert one["x"] == rows.get(one["y"], 0)
        rows[one["y"]] = one["x"] + one["width"]

    assert set(rows.values()) == {24}
