"""The alert that the compensating machine cannot send itself: one of its executions did not succeed."""

import json
import re
from typing import Any

import pytest

from infra.config import STAGES
from tests.infra.machines import each_stage, logical_id
from tests.infra.rules import ENDED, properties, target
from tests.support.templates import PROJECT

ENDS_BADLY = ["ABORTED", "FAILED", "TIMED_OUT"]

each_bad_end = pytest.mark.parametrize(
    ("stage", "status"), [(stage, status) for stage in STAGES for status in ENDS_BADLY]
)


def event(status: str) -> dict[str, Any]:
    """Return AWS's event, with the longest name that an execution can have: 80 characters."""
    name = "order-2026-000101".ljust(80, "x")
    arn = f"arn:aws:states:eu-west-1:000000000000:execution:Compensation:{name}"
    return {"detail": {"status": status, "name": name, "executionArn": arn, "output": None}}


def alert(stage: str, status: str) -> Any:
    """Return the message as EventBridge makes it: a value in quotes stays text, any other becomes JSON."""
    transformer = target(stage, ENDED)["InputTransformer"]
    message = transformer["InputTemplate"]
    for variable, path in transformer["InputPathsMap"].items():
        value: Any = event(status)
        for part in path.removeprefix("$.").split("."):
            value = value[part]
        message = message.replace(f":<{variable}>", f":{json.dumps(value)}").replace(f"<{variable}>", value)
    return json.loads(message)


@each_stage
def test_the_rule_matches_aws_events_about_executions(stage: str) -> None:
    """Only the default bus has AWS's own events. On ours the rule would never match."""
    found = properties(stage, ENDED)

    assert "EventBusName" not in found
    assert found["State"] == "ENABLED"
    assert found["EventPattern"].keys() == {"source", "detail-type", "detail"}
    assert found["EventPattern"]["source"] == ["aws.states"]
    assert found["EventPattern"]["detail-type"] == ["Step Functions Execution Status Change"]


@each_stage
def test_every_end_but_success_alerts(stage: str) -> None:
    statuses = properties(stage, ENDED)["EventPattern"]["detail"]["status"]

    assert sorted(statuses) == ENDS_BADLY
    assert not {"RUNNING", "SUCCEEDED"} & set(statuses)


@each_stage
def test_only_the_compensating_machine_has_such_a_rule(stage: str) -> None:
    """A failed settlement was refused, or its compensation alerts for itself."""
    detail = properties(stage, ENDED)["EventPattern"]["detail"]

    assert detail.keys() == {"stateMachineArn", "status"}
    assert detail["stateMachineArn"] == [{"Ref": logical_id(stage, "Compensation")}]


@each_bad_end
def test_the_alert_names_the_execution_and_its_end(stage: str, status: str) -> None:
    """The execution's name begins with the settlement's key: with it the runbook's commands can be typed."""
    detail = event(status)["detail"]

    found = alert(stage, status)

    assert found.keys() == {"summary", "execution_arn"}
    assert found["summary"].startswith(f"Compensation ended as {status}: {detail['name']};")
    assert found["execution_arn"] == detail["executionArn"]


@each_stage
def test_the_message_has_only_parts_of_the_event(stage: str) -> None:
    """A variable without a path would be in the alert as it is written."""
    found = target(stage, ENDED)
    transformer = found["InputTransformer"]

    assert not found.keys() & {"Input", "InputPath"}
    assert set(re.findall(r"<(.*?)>", transformer["InputTemplate"])) == transformer["InputPathsMap"].keys()
    assert set(transformer["InputPathsMap"].values()) == {
        "$.detail.status",
        "$.detail.name",
        "$.detail.executionArn",
    }


@each_bad_end
def test_the_alert_names_an_existing_runbook(stage: str, status: str) -> None:
    named = re.findall(r"; see the runbook (\S+)$", alert(stage, status)["summary"])

    assert named == ["compensation-stalled"]
    assert (PROJECT / "docs" / "runbooks" / f"{named[0]}.md").is_file()
