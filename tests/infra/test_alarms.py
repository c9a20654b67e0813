"""The alarms: each one's metric, its threshold, and its action."""

from typing import Any

import pytest

from infra.config import STAGES
from infra.grants import GRANTS, TRIGGERED
from settlement.adapters import telemetry
from settlement.ledger import keys
from settlement.policy import recovery
from tests.infra.alarms import (
    ALARMS,
    OURS,
    PERIODS,
    SUMS,
    each_alarm,
    each_sum,
    properties,
)
from tests.infra.machines import each_stage, function_id, logical_id, name
from tests.support import templates

EACH = {
    "RecoveryFailed": "RecoverStalled",
    "StartSettlementsFailed": "StartSettlements",
    "KycDecidedFailed": "KycDecided",
    "AlertUndelivered": "PagerUndelivered",
    "StartDeadLetters": "StartDeadLetters",
    "StartQueueAge": "StartQueue",
}
"""The one function or queue that an alarm watches."""

IN_FIVE_MINUTES = {
    "RecoveryFailed": 3,
    "NotRecovered": 1,
    "LimboAge": 4 * 3600,
    "LimboOpen": 1,
    "FunctionFailed": 1,
    "StoreUnavailable": 5,
    "RecoveryCutShort": 5,
    "TransactionConflict": 6,
    "SettlementExpressFailed": 5,
    "SettlementExpressTimedOut": 1,
    "SettlementStandardFailed": 5,
    "SettlementStandardTimedOut": 1,
    "SettlementStandardAborted": 1,
    "StartSettlementsFailed": 1,
    "KycDecidedFailed": 1,
    "KycRequestRefused": 3,
    "KycSecretUnreadable": 1,
    "KycVerdictConflict": 1,
}
IN_A_MINUTE = {
    "AlertUndelivered": 1,
    "CompensationFailed": 1,
    "CompensationTimedOut": 1,
    "CompensationAborted": 1,
    "Recoveries": 20,
    "StartQueueAge": 600,
    "StartDeadLetters": 1,
    "KycCircuitOpen": 1,
}
"""The threshold of each alarm, by its period. A few refusals or conflicts are normal."""

MISSING = {
    "OldestInFlight": "breaching",
    "LimboAge": "ignore",
    "LimboOpen": "ignore",
    "KycCircuitOpen": "ignore",
}
"""Recovery measures in each run; without it LIMBO stays as it is. A circuit reports its changes alone."""


@each_stage
def test_these_are_the_alarms(stage: str) -> None:
    assert properties(stage).keys() == (ALARMS if STAGES[stage].is_embedded else ALARMS | SUMS).keys()


@each_alarm
def test_an_alarm_watches_its_metric(stage: str, alarm: str) -> None:
    found = properties(stage)[alarm]

    assert (found["Namespace"], found["MetricName"], found["Statistic"]) == ALARMS[alarm]
    assert found["Dimensions"] == [watched(stage, alarm)]


def watched(stage: str, alarm: str) -> Any:
    """Return the dimension of an alarm's metric."""
    match ALARMS[alarm][0]:
        case "AWS/SQS":
            (queue,) = (
                one for one in templates.resources("AWS::SQS::Queue", stage) if name(one) == EACH[alarm]
            )
            return {"Name": "QueueName", "Value": {"Fn::GetAtt": [queue, "QueueName"]}}
        case "AWS/Lambda":
            return {"Name": "FunctionName", "Value": {"Ref": function_id(stage, EACH[alarm])}}
        case "AWS/States":
            machine = alarm.removesuffix("Failed").removesuffix("TimedOut").removesuffix("Aborted")
            return {"Name": "StateMachineArn", "Value": {"Ref": logical_id(stage, machine)}}
    return {"Name": "service", "Value": telemetry.metrics.service}


@each_alarm
def test_an_alarm_goes_off_as_soon_as_its_threshold_is_reached(stage: str, alarm: str) -> None:
    found = properties(stage)[alarm]
    expected = {
        alarm: (seconds, threshold)
        for seconds, alarms in ((60, IN_A_MINUTE), (300, IN_FIVE_MINUTES))
        for alarm, threshold in alarms.items()
    }
    expected["OldestInFlight"] = (300, STAGES[stage].deadline_seconds + 900)

    assert (found["Period"], found["Threshold"]) == expected[alarm]
    assert (found["EvaluationPeriods"], found["DatapointsToAlarm"]) == (PERIODS.get(alarm, 1), 1)
    assert found["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"


def test_the_alarm_on_age_covers_the_longest_pause_of_recovery() -> None:
    """A run measures a stalled settlement when it is due: as rarely as this, and up to a minute late."""
    assert (PERIODS["OldestInFlight"] - 1) * 300 == recovery.BACKOFF_SECONDS_MAX


@each_alarm
def test_missing_data_is_an_alarm_only_if_it_means_that_recovery_is_dead(stage: str, alarm: str) -> None:
    """Most metrics have no data while nothing happens."""
    assert properties(stage)[alarm]["TreatMissingData"] == MISSING.get(alarm, "notBreaching")


@each_sum
def test_a_sum_adds_the_metrics_of_its_name(stage: str, alarm: str) -> None:
    namespace, names = SUMS[alarm]
    metrics = [one["MetricStat"] for one in parts(stage, alarm)]

    assert {one["Metric"]["Namespace"] for one in metrics} == {namespace}
    assert {one["Metric"]["MetricName"] for one in metrics} == names
    assert {(one["Stat"], one["Period"]) for one in metrics} == {("Sum", 300)}


@each_sum
def test_a_sum_adds_every_part_and_a_gap_counts_as_zero(stage: str, alarm: str) -> None:
    """Without one part there would be no sum; and DynamoDB's gaps keep an alarm in its state."""
    (expression,) = (one for one in properties(stage)[alarm]["Metrics"] if "Expression" in one)

    summands = [f"FILL({one['Id']}, 0)" for one in parts(stage, alarm)]

    assert sorted(expression["Expression"].split(" + ")) == sorted(summands)
    assert [one.get("ReturnData", True) for one in parts(stage, alarm)] == [False] * len(summands)
    assert len(summands) <= 10, "CloudWatch takes no more metrics for one alarm"


@each_sum
def test_a_sum_goes_off_at_five_in_five_minutes(stage: str, alarm: str) -> None:
    found = properties(stage)[alarm]

    assert (found["Threshold"], found["EvaluationPeriods"], found["DatapointsToAlarm"]) == (5, 1, 1)
    assert found["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
    assert found["TreatMissingData"] == "notBreaching"


@pytest.mark.parametrize("stage", ["dev", "prod"])
def test_every_function_is_in_one_sum_of_throttles(stage: str) -> None:
    found = [
        dimension["Value"]["Ref"]
        for alarm, (namespace, _) in SUMS.items()
        if namespace == "AWS/Lambda"
        for one in parts(stage, alarm)
        for dimension in one["MetricStat"]["Metric"]["Dimensions"]
    ]

    assert sorted(found) == sorted(function_id(stage, one) for one in GRANTS | TRIGGERED)


@pytest.mark.parametrize("stage", ["dev", "prod"])
def test_the_table_and_its_index_are_both_watched_for_throttles(stage: str) -> None:
    """An index counts its own throttles, and a throttled index throttles the table."""
    (table,) = templates.resources("AWS::DynamoDB::Table", stage)
    found = [
        {one["Name"]: one["Value"] for one in part["MetricStat"]["Metric"]["Dimensions"]}
        for part in parts(stage, "TableThrottled")
    ]
    whole = {"TableName": {"Ref": table}}

    assert len(found) == 4
    assert [one for one in found if one == whole] == [whole] * 2
    assert found.count(whole | {"GlobalSecondaryIndexName": keys.INDEX}) == 2


def parts(stage: str, alarm: str) -> list[Any]:
    """Return the metrics that a sum adds up."""
    return [one for one in properties(stage)[alarm]["Metrics"] if "MetricStat" in one]


@each_stage
def test_every_alarm_notifies_the_pagers_topic(stage: str) -> None:
    (topic,) = templates.resources("AWS::SNS::Topic", stage)

    for alarm, found in properties(stage).items():
        assert found["AlarmActions"] == [{"Ref": topic}], alarm
        assert found.get("ActionsEnabled", True) is True, alarm


@each_stage
def test_our_own_metrics_are_in_the_namespace_that_the_functions_write_to(stage: str) -> None:
    for alarm in OURS:
        assert properties(stage)[alarm]["Namespace"] == telemetry.metrics.namespace
