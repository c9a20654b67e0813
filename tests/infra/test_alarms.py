"""What calls a person where no event does, and the runbook that each call names."""

import json
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aws_lambda_powertools.utilities.circuit_breaker import CircuitState
from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError

from handlers import _provider, _runtime, _secrets, recover_stalled, verify_kyc
from infra.settings import STAGES
from settlement import telemetry
from settlement.errors import KycRequestRefused, KycUnavailable
from settlement.request import Settlement
from settlement.status import Status, Step
from tests.conftest import NOW
from tests.infra.machines import each_stage, function_id, logical_id, name
from tests.support import templates
from tests.support.kyc import REJECTED, Provider
from tests.support.templates import PROJECT
from tests.unit.every_row import AFTER, settlement_row

ALARMS = {
    "PagingPageUndelivered": ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", "dead-pager"),
    "PagingCompensationFailed": ("AWS/States", "ExecutionsFailed", "Sum", "compensation-stalled"),
    "PagingCompensationTimedOut": ("AWS/States", "ExecutionsTimedOut", "Sum", "compensation-stalled"),
    "PagingCompensationAborted": ("AWS/States", "ExecutionsAborted", "Sum", "compensation-stalled"),
    "PagingKycCircuitOpen": ("Settlement", "KycCircuitOpen", "Maximum", "kyc-outage"),
    "PagingKycRequestRefused": ("Settlement", "KycRequestRefused", "Sum", "kyc-outage"),
    "PagingKycSecretUnreadable": ("Settlement", "KycSecretUnreadable", "Sum", "kyc-outage"),
    "PagingKycVerdictConflict": ("Settlement", "KycVerdictConflict", "Sum", "kyc-outage"),
    "PagingRecoveryFailed": ("AWS/Lambda", "Errors", "Sum", "settlement-stalled"),
    "PagingNotRecovered": ("Settlement", "NotRecovered", "Sum", "settlement-stalled"),
}
"""Each alarm with the metric's namespace, name and statistic, and its runbook."""

OURS = {alarm for alarm, (namespace, *_) in ALARMS.items() if namespace == "Settlement"}
"""Alarms on metrics of our own, which the functions write into their logs."""

REACHED = {
    "PagingKycRequestRefused": (300, 3),
    "PagingKycSecretUnreadable": (300, 1),
    "PagingKycVerdictConflict": (300, 1),
    "PagingRecoveryFailed": (300, 1),
    "PagingNotRecovered": (300, 1),
}
"""Over how many seconds they look, and what is too much; the others page at the first in a minute."""

HOLDS = {"PagingKycCircuitOpen"}
"""Alarms on what is told when it changes: in between there is nothing to hear, and it is as it was."""

RUNBOOKS = {"kyc-outage", "limbo", "settlement-stalled", "dead-pager", "compensation-stalled"}

each_alarm = pytest.mark.parametrize(
    ("stage", "alarm"), [(stage, alarm) for stage in STAGES for alarm in ALARMS]
)


def metrics_of(write: Callable[[], None]) -> dict[str, list[float]]:
    """The values of each metric that a call writes, with no dimension but the service."""
    telemetry.metrics.clear_metrics()
    write()
    found: Any = telemetry.metrics.serialize_metric_set()
    telemetry.metrics.clear_metrics()
    (directive,) = found["_aws"]["CloudWatchMetrics"]
    assert directive["Dimensions"] == [["service"]]
    return {metric["Name"]: found[metric["Name"]] for metric in directive["Metrics"]}


def no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets Manager does not give the secret away."""

    def denied(*_: object, **__: object) -> None:
        raise GetParameterError("denied")

    monkeypatch.setattr(_secrets._provider, "get", denied)
    with pytest.raises(KycUnavailable):
        _secrets.read("secret", cache_seconds=60)


def contradicted(settlement: Settlement, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider approves what another call has meanwhile put on record as rejected."""
    row = settlement_row(Status.PROCESSING, {Step.HOLD}, AFTER, settlement=settlement)
    entry = {"decision": REJECTED.decision.value, "reference": REJECTED.reference}
    store = SimpleNamespace(read=lambda key: row, post=lambda posting: entry)
    monkeypatch.setattr(_runtime, "store", store)
    monkeypatch.setattr(_runtime, "now", lambda: NOW)
    monkeypatch.setattr(_provider, "ask", Provider().ask)
    assert verify_kyc._verdict(settlement) == entry


def not_recovered() -> None:
    """Whatever is wrong with one settlement."""
    with recover_stalled._noted("a settlement"):
        raise ZeroDivisionError


def properties(stage: str, alarm: str) -> Any:
    (found,) = (
        resource["Properties"]
        for one, resource in templates.resources("AWS::CloudWatch::Alarm", stage).items()
        if name(one) == alarm
    )
    return found


@each_stage
def test_these_are_the_alarms(stage: str) -> None:
    found = [name(one) for one in templates.resources("AWS::CloudWatch::Alarm", stage)]

    assert sorted(found) == sorted(ALARMS)


@each_alarm
def test_an_alarm_watches_what_its_name_says(stage: str, alarm: str) -> None:
    found = properties(stage, alarm)
    (queue,) = templates.resources("AWS::SQS::Queue", stage)
    watched = {
        "AWS/SQS": {"Name": "QueueName", "Value": {"Fn::GetAtt": [queue, "QueueName"]}},
        "AWS/States": {"Name": "StateMachineArn", "Value": {"Ref": logical_id(stage, "Compensation")}},
        "AWS/Lambda": {"Name": "FunctionName", "Value": {"Ref": function_id(stage, "RecoverStalled")}},
        "Settlement": {"Name": "service", "Value": telemetry.metrics.service},
    }

    assert (found["Namespace"], found["MetricName"], found["Statistic"]) == ALARMS[alarm][:3]
    assert found["Dimensions"] == [watched[found["Namespace"]]]


@pytest.mark.parametrize("alarm", sorted(OURS))
def test_an_alarm_on_a_metric_of_our_own_names_one_that_is_written(
    alarm: str, settlement: Settlement, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CloudWatch takes any name for a metric, and an alarm on one that nobody writes is silent for ever."""
    namespace, metric, *_ = ALARMS[alarm]
    writers: dict[str, Callable[[], None]] = {
        "KycCircuitOpen": lambda: _provider._measure(CircuitState.OPEN),
        "KycRequestRefused": lambda: telemetry.count(KycRequestRefused.__name__),
        "KycSecretUnreadable": lambda: no_secret(monkeypatch),
        "KycVerdictConflict": lambda: contradicted(settlement, monkeypatch),
        "NotRecovered": not_recovered,
    }

    assert namespace == telemetry.metrics.namespace
    assert metrics_of(writers[metric]) == {metric: [1.0]}


def test_the_circuits_metric_is_1_for_as_long_as_it_is_not_closed() -> None:
    assert metrics_of(lambda: _provider._measure(CircuitState.HALF_OPEN)) == {"KycCircuitOpen": [1.0]}
    assert metrics_of(lambda: _provider._measure(CircuitState.CLOSED)) == {"KycCircuitOpen": [0.0]}


@each_alarm
def test_an_alarm_goes_off_by_itself_as_soon_as_it_is_reached(stage: str, alarm: str) -> None:
    """The first occurrence is enough, but for what a single payment may have brought about."""
    found, expected = properties(stage, alarm), REACHED.get(alarm, (60, 1))

    assert (found["Period"], found["Threshold"], found["EvaluationPeriods"]) == (*expected, 1)
    assert found.get("DatapointsToAlarm", 1) == 1
    assert found["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"


@each_alarm
def test_silence_is_no_alarm_but_where_it_means_no_change(stage: str, alarm: str) -> None:
    """No metric is there while nothing happens."""
    assert properties(stage, alarm)["TreatMissingData"] == ("ignore" if alarm in HOLDS else "notBreaching")


@each_alarm
def test_an_alarm_calls_whoever_is_paged(stage: str, alarm: str) -> None:
    (topic,) = templates.resources("AWS::SNS::Topic", stage)
    found = properties(stage, alarm)

    assert found["AlarmActions"] == [{"Ref": topic}]
    assert found.get("ActionsEnabled", True) is True


@each_alarm
def test_an_alarm_names_the_runbook_to_open(stage: str, alarm: str) -> None:
    named = re.findall(r"See the runbook (\S+)\.$", properties(stage, alarm)["AlarmDescription"])

    assert named == [ALARMS[alarm][3]]
    assert (PROJECT / "docs" / "runbooks" / f"{named[0]}.md").is_file()


@pytest.mark.parametrize("stage", STAGES)
def test_the_page_names_a_runbook_that_is_there(stage: str) -> None:
    address = json.loads(STAGES[stage].paging)["runbook"]

    assert address.startswith(f"{STAGES[stage].runbooks}/")
    assert (PROJECT / "docs" / "runbooks" / address.removeprefix(f"{STAGES[stage].runbooks}/")).is_file()


@pytest.mark.parametrize("runbook", sorted(RUNBOOKS))
def test_every_call_has_a_runbook_that_says_how_to_look_act_and_verify(runbook: str) -> None:
    text = (PROJECT / "docs" / "runbooks" / f"{runbook}.md").read_text()

    sections = re.findall(r"^## (.+)$", text, re.MULTILINE)

    assert text.startswith("# ")
    assert {"What happened", "Look", "Act", "Verify"} <= set(sections)
