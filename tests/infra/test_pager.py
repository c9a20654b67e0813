"""The way of an alert: a bus, rules, an encrypted topic, and a queue for undelivered alerts."""

import json
import re
from typing import Any

import pytest

from tests.infra.stack import (
    KEPT,
    allow,
    attached,
    definition,
    each_stage,
    no_plain_http,
    only,
    permissions,
    properties,
    resources,
)
from tests.world.templates import PROJECT

LIMBO, ENDED = "PagerRule", "PagerCompensationEnded"
"""The rules for the machine's events about LIMBO, and for AWS's events about the machine's end."""

ENDS_BADLY = ["ABORTED", "FAILED", "TIMED_OUT"]
EVENTS, CLOUDWATCH = "events.amazonaws.com", "cloudwatch.amazonaws.com"
TOPIC, QUEUE = "${PagerTopic}", "${PagerUndelivered.Arn}"
ROOT = "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"
OUR_ACCOUNT = {"StringEquals": {"aws:SourceAccount": "${AWS::AccountId}"}}

each_bad_end = pytest.mark.parametrize("status", ENDS_BADLY)


def target(stage: str, rule: str) -> Any:
    """Return the one target of the rule."""
    (found,) = properties(stage, "Events::Rule")[rule]["Targets"]
    return found


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
def test_the_bus_is_the_stages_own_and_these_are_the_rules(stage: str) -> None:
    """On the account's default bus, other rules would match our events. The bus admits this account only."""
    assert only(stage, "Events::EventBus") == {"Name": f"settlement-{stage}"}
    assert resources(stage, "Events::Rule").keys() == {LIMBO, ENDED}
    for rule in properties(stage, "Events::Rule").values():
        assert rule["State"] == "ENABLED"


@each_stage
def test_every_event_of_the_machine_matches_the_rule(stage: str) -> None:
    """A bus silently drops an event that no rule matches."""
    rule = properties(stage, "Events::Rule")[LIMBO]
    entries = [
        entry
        for state in definition(stage, "Compensation")["States"].values()
        if state.get("Resource", "").endswith(":events:putEvents")
        for entry in state["Parameters"]["Entries"]
    ]

    assert rule["EventBusName"] == "${PagerBus}"
    assert rule["EventPattern"] == {
        "source": ["settlement"],
        "detail-type": ["LimboEntered", "LimboResolved"],
    }
    assert sorted(entry["DetailType"] for entry in entries) == rule["EventPattern"]["detail-type"]
    for entry in entries:
        assert (entry["Source"], entry["EventBusName"]) == ("settlement", "${EventBus}")


@each_stage
def test_every_end_of_the_compensating_machine_but_success_alerts(stage: str) -> None:
    """Only the default bus has AWS's own events.

    A failed settlement was refused, or its compensation alerts for itself: only this machine has such a rule.
    """
    found = properties(stage, "Events::Rule")[ENDED]
    detail = found["EventPattern"]["detail"]

    assert "EventBusName" not in found
    assert found["EventPattern"] == {
        "source": ["aws.states"],
        "detail-type": ["Step Functions Execution Status Change"],
        "detail": {"stateMachineArn": ["${Compensation}"], "status": detail["status"]},
    }
    assert sorted(detail["status"]) == ENDS_BADLY


@each_stage
def test_an_event_about_limbo_is_delivered_as_its_detail_alone(stage: str) -> None:
    assert target(stage, LIMBO)["InputPath"] == "$.detail"
    assert not target(stage, LIMBO).keys() & {"Input", "InputTransformer"}


@each_stage
@each_bad_end
def test_an_alert_about_an_end_names_the_execution_and_an_existing_runbook(stage: str, status: str) -> None:
    """The execution's name begins with the settlement's key: with it the runbook's commands can be typed."""
    detail = event(status)["detail"]
    found = alert(stage, status)

    assert found == {
        "summary": f"Compensation ended as {status}: {detail['name']}; see the runbook compensation-stalled",
        "execution_arn": detail["executionArn"],
    }
    assert (PROJECT / "docs/runbooks/compensation-stalled.md").is_file()


@each_stage
def test_an_alert_about_an_end_has_only_parts_of_the_event(stage: str) -> None:
    """A variable without a path would be in the alert as it is written."""
    found = target(stage, ENDED)
    transformer = found["InputTransformer"]

    assert not found.keys() & {"Input", "InputPath"}
    assert set(re.findall(r"<(.*?)>", transformer["InputTemplate"])) == transformer["InputPathsMap"].keys()


@each_stage
@pytest.mark.parametrize("rule", [LIMBO, ENDED])
def test_an_alert_goes_to_the_topic_and_after_a_quarter_of_an_hour_to_the_queue(
    stage: str, rule: str
) -> None:
    """An alert that is retried for a day helps no one; in the queue it sets off an alarm.

    By default EventBridge makes up to 185 attempts, the maximum: time alone decides.
    """
    found = target(stage, rule)

    assert found["Arn"] == TOPIC
    assert found["RetryPolicy"]["MaximumEventAgeInSeconds"] == 15 * 60
    assert found["RetryPolicy"].get("MaximumRetryAttempts", 185) == 185
    assert found["DeadLetterConfig"] == {"Arn": QUEUE}


@each_stage
def test_an_undelivered_alert_is_kept_for_two_weeks_and_encrypted_without_a_key(stage: str) -> None:
    """EventBridge would need the key."""
    found = properties(stage, "SQS::Queue")["PagerUndelivered"]

    assert found == {"MessageRetentionPeriod": 14 * 86_400, "SqsManagedSseEnabled": True}


@each_stage
def test_only_the_rules_put_alerts_into_the_queue(stage: str) -> None:
    """EventBridge drops an alert for good if it may not send to the queue."""
    admitted = [
        allow("sqs:SendMessage", on=[QUEUE], by=EVENTS, only_if={"ArnEquals": {"aws:SourceArn": arn}})
        for arn in (f"${{{LIMBO}.Arn}}", f"${{{ENDED}.Arn}}")
    ]

    found = attached(stage, "SQS::QueuePolicy", "Queues", "${PagerUndelivered}")

    assert found == no_plain_http("sqs:*", QUEUE).union(*admitted)


@each_stage
def test_the_topic_admits_the_rules_and_this_accounts_alarms(stage: str) -> None:
    """Without its condition an alarm of another account could publish to our topic."""
    assert attached(stage, "SNS::TopicPolicy", "Topics", TOPIC) == (
        allow("sns:Publish", on=[TOPIC], by=EVENTS)
        | allow("sns:Publish", on=[TOPIC], by=CLOUDWATCH, only_if=OUR_ACCOUNT)
        | no_plain_http("sns:Publish", TOPIC)
    )


@each_stage
def test_the_topics_key_is_its_own_and_each_publisher_may_use_it(stage: str) -> None:
    """Without it the publisher gets an error, and its alert is lost. SNS asks it for these actions only.

    A publisher that may use the table's key could decrypt rows.
    """
    key = properties(stage, "KMS::Key")["PagerKey"]
    use = [allow("kms:Decrypt", "kms:GenerateDataKey*", on=["*"], by=by) for by in (EVENTS, CLOUDWATCH)]

    assert only(stage, "SNS::Topic") == {"KmsMasterKeyId": "${PagerKey.Arn}"}
    assert key["EnableKeyRotation"] is True
    assert set(permissions(key["KeyPolicy"])) == allow("kms:*", on=["*"], by=ROOT).union(*use)


@each_stage
def test_where_money_is_real_the_way_of_an_alert_outlives_the_stack(stage: str) -> None:
    """An alert in the queue has reached no person yet, and would be lost with the queue."""
    for found in (
        resources(stage, "KMS::Key")["PagerKey"],
        resources(stage, "SQS::Queue")["PagerUndelivered"],
    ):
        assert found["DeletionPolicy"] == found["UpdateReplacePolicy"] == KEPT[stage]
