from itertools import product
from typing import Any

import pytest

from infra.config import STAGES
from settlement.core.ledger import keys
from settlement.core.policy import recovery
from tests.infra.alarms import (
    ALARMS,
    OF_OPTIONS,
    ONE_FAULT_MINUTES,
    OPTIONAL_ALARMS,
    PAYOUT_ALARMS,
    PAYRUN_ALARMS,
    STACK,
    SUMS,
    counted,
    deployed,
    listed,
    of_options,
    of_stage,
)
from tests.infra.stack import FUNCTIONS, ON_AWS, PAYING, RUNNING, definition, each_stage, each_stage_on_aws
from tests.world.rooms import there

each_sum = pytest.mark.parametrize("alarm", SUMS)
EVERY = ALARMS | OPTIONAL_ALARMS
OURS = sorted(alarm.metric for alarm in EVERY.values() if alarm.namespace == "Settlement")


def parts(stage: str, alarm: str) -> list[Any]:
    return [one for one in deployed(stage)[alarm]["Metrics"] if "MetricStat" in one]


def dimensions(stage: str, alarm: str) -> list[dict[str, str]]:
    metrics = [one["MetricStat"]["Metric"] for one in parts(stage, alarm)]
    return [{one["Name"]: one["Value"] for one in metric["Dimensions"]} for metric in metrics]


@each_stage
def test_each_alarm_notifies_the_topic_of_its_urgency(stage: str) -> None:
    found, topics = deployed(stage), listed()

    sums = {} if STAGES[stage].is_embedded else SUMS
    assert found.keys() == {**of_stage(stage), **sums}.keys()
    for name, alarm in found.items():
        assert alarm["AlarmActions"][:1] == [f"${{Pager{topics[name]}}}"], name
        assert alarm["OKActions"] == [f"${{Pager{topics[name]}}}"], name
        more = ["${PagerMorningTopic}", "${PagerInformationTopic}"] if name == "DeliveryFailed" else []
        assert alarm["AlarmActions"][1:] == more, name
        assert alarm.get("ActionsEnabled", True) is True, name


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        *product(STAGES, ALARMS),
        *product(ON_AWS, OF_OPTIONS),
        *product(PAYING, PAYOUT_ALARMS),
        *product(RUNNING, PAYRUN_ALARMS),
    ],
)
def test_an_alarm_goes_off_when_its_metric_reaches_its_threshold(stage: str, name: str) -> None:
    """A gap in a metric is an alarm only if it means a dead recovery or an unknown lag."""
    found = (of_options(stage) if name in OF_OPTIONS else deployed(stage))[name]
    alarm = EVERY[name]
    dimension, value = alarm.dimension

    described = ("AlarmActions", "AlarmDescription", "OKActions")
    assert {field: text for field, text in found.items() if field not in described} == {
        "Namespace": alarm.namespace,
        "MetricName": alarm.metric,
        "Dimensions": [{"Name": dimension, "Value": STAGES[stage].stack_name if value == STACK else value}],
        "Statistic": alarm.statistic,
        "Period": alarm.seconds,
        "Threshold": alarm.threshold,
        "EvaluationPeriods": alarm.periods,
        "DatapointsToAlarm": alarm.breaching,
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "TreatMissingData": alarm.missing,
    }
    assert found["AlarmActions"][0] == f"${{Pager{listed()[name]}}}"


def test_the_alarm_on_age_begins_after_each_stages_deadline() -> None:
    assert {settings.deadline_seconds for settings in STAGES.values()} == {900}


@each_stage_on_aws
@each_sum
def test_an_alarm_on_a_sum_counts_gaps_as_zero(stage: str, alarm: str) -> None:
    """Without the zeros, one missing metric leaves no sum, and gaps would keep the alarm in its state."""
    found, added, (namespace, names) = deployed(stage)[alarm], parts(stage, alarm), SUMS[alarm]
    (expression,) = (one["Expression"] for one in found["Metrics"] if "Expression" in one)
    metrics = [one["MetricStat"] for one in added]

    threshold = 1 if alarm == "DeliveryFailed" else 5
    assert (found["Threshold"], found["EvaluationPeriods"], found["DatapointsToAlarm"]) == (threshold, 1, 1)
    assert found["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
    assert found["TreatMissingData"] == "notBreaching"
    assert {one["Metric"]["Namespace"] for one in metrics} == {namespace}
    assert {one["Metric"]["MetricName"] for one in metrics} == names
    assert {(one["Stat"], one["Period"]) for one in metrics} == {("Sum", 300)}
    assert sorted(expression.split(" + ")) == sorted(f"FILL({one['Id']}, 0)" for one in added)
    assert {one.get("ReturnData", True) for one in added} == {False}
    assert len(added) <= 10, "CloudWatch takes no more metrics for one alarm"


@each_stage_on_aws
def test_every_function_is_in_one_sum_of_throttled_calls(stage: str) -> None:
    throttled = [alarm for alarm, (namespace, _) in SUMS.items() if namespace == "AWS/Lambda"]
    found = [one["FunctionName"] for alarm in throttled for one in dimensions(stage, alarm)]

    assert sorted(found) == sorted(f"${{{name}}}" for name in FUNCTIONS)


@each_stage_on_aws
def test_the_table_and_its_index_are_both_watched_for_throttles(stage: str) -> None:
    """An index counts its own throttles, and a throttled index throttles the table."""
    found = dimensions(stage, "TableThrottled")
    table = {"TableName": "${LedgerTable}"}

    assert len(found) == 4
    assert found.count(table) == found.count(table | {"GlobalSecondaryIndexName": keys.INDEX}) == 2


@each_stage_on_aws
def test_the_step_functions_quotas_that_limit_a_stage_are_watched(stage: str) -> None:
    assert dimensions(stage, "StatesThrottled") == [
        {"ServiceMetric": "StateTransition"},
        {"APIName": "StartExecution"},
        {"APIName": "DescribeExecution"},
    ]


def test_each_alarm_on_our_own_metric_names_a_published_metric() -> None:
    """CloudWatch accepts any metric name, so an alarm on an unwritten metric would stay silent."""
    written = counted()

    assert sorted(set(OURS) - written) == []
    assert not {"", "Nonesuch", "settlement", "kyc", "AlarmName"} & written


@each_stage
def test_an_alarm_that_callers_can_cause_pages_no_one(stage: str) -> None:
    """Callers cause failed executions and dead letters by bad requests, and strangers send unsigned calls."""
    caused = {
        *("SettlementExpressFailed", "SettlementStandardFailed", "SignatureRefused", "WebhookRefused"),
        *there("doors", "StartDeadLetters"),
    }
    counted = {"InvalidRequest", "IdempotencyConflict", "NotReversible", "ResolutionRefused"}

    for name in caused:
        assert "${PagerTopic}" not in deployed(stage)[name]["AlarmActions"], name
    assert not counted & set(OURS)


def test_a_persistent_fault_of_reversals_pages_only_once() -> None:
    """The longest time between a reversal's failures is recovery's longest pause, a run and the retries."""
    seconds_max = [
        sum(
            10 + min(one["IntervalSeconds"] * one["BackoffRate"] ** n, one["MaxDelaySeconds"])
            for n in range(one["MaxAttempts"])
        )
        for one in definition("prod", "Compensation")["States"]["ReclaimFunds"]["Retry"][1:]
    ]

    assert recovery.BACKOFF_SECONDS_MAX + 60 + max(seconds_max) < ONE_FAULT_MINUTES * 60
