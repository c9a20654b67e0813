"""What calls a person where no event does, and the runbook that each call names."""

import json
import re
from typing import Any

import pytest

from infra.settings import STAGES
from tests.infra.machines import each_stage, logical_id, name
from tests.support import templates
from tests.support.templates import PROJECT

ALARMS = {
    "PagingPageUndelivered": ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", "dead-pager"),
    "PagingCompensationFailed": ("AWS/States", "ExecutionsFailed", "Sum", "compensation-stalled"),
    "PagingCompensationTimedOut": ("AWS/States", "ExecutionsTimedOut", "Sum", "compensation-stalled"),
    "PagingCompensationAborted": ("AWS/States", "ExecutionsAborted", "Sum", "compensation-stalled"),
}
"""Each alarm with the metric's namespace, name and statistic, and its runbook."""

RUNBOOKS = {"limbo", "settlement-stalled", "dead-pager", "compensation-stalled"}

each_alarm = pytest.mark.parametrize(
    ("stage", "alarm"), [(stage, alarm) for stage in STAGES for alarm in ALARMS]
)


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
    compensation = {"Name": "StateMachineArn", "Value": {"Ref": logical_id(stage, "Compensation")}}
    undelivered = {"Name": "QueueName", "Value": {"Fn::GetAtt": [queue, "QueueName"]}}

    assert (found["Namespace"], found["MetricName"], found["Statistic"]) == ALARMS[alarm][:3]
    assert found["Dimensions"] == [undelivered if alarm == "PagingPageUndelivered" else compensation]


@each_alarm
def test_the_first_occurrence_in_a_minute_is_enough(stage: str, alarm: str) -> None:
    found = properties(stage, alarm)

    assert (found["Period"], found["EvaluationPeriods"], found["Threshold"]) == (60, 1, 1)
    assert found.get("DatapointsToAlarm", 1) == 1
    assert found["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"


@each_alarm
def test_silence_is_no_alarm(stage: str, alarm: str) -> None:
    """Neither metric is there while nothing happens."""
    assert properties(stage, alarm)["TreatMissingData"] == "notBreaching"


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
