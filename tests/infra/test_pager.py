"""The way of an alert: a bus, a rule, an encrypted topic, and a queue for undelivered alerts."""

from typing import Any

import pytest

from infra.config import STAGES
from tests.infra import rules
from tests.infra.iam import Statement, attribute, of_document
from tests.infra.machines import bus, definition, each_stage, name
from tests.infra.rules import LIMBO, RULES, each_rule, target
from tests.support import templates

ADMITTED_IF: dict[str, Any] = {
    "events.amazonaws.com": {},
    "cloudwatch.amazonaws.com": {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}},
}
PUBLISHERS = [*ADMITTED_IF]
"""The publishers of the topic. `ADMITTED_IF` has the condition of each in the topic's policy."""

each_lasting_stage = pytest.mark.parametrize("stage", ["dev", "prod"])
each_publisher = pytest.mark.parametrize(
    ("stage", "publisher"), [(stage, publisher) for stage in STAGES for publisher in PUBLISHERS]
)

KEY_USE = {"kms:Decrypt", "kms:GenerateDataKey*"}
OVER_PLAIN_HTTP = {"Bool": {"aws:SecureTransport": "false"}}


def only(kind: str, stage: str) -> Any:
    """Return the logical id and the resource of the only one of its kind."""
    ((logical_id, resource),) = templates.resources(kind, stage).items()
    return logical_id, resource


def topic_key(stage: str) -> Any:
    topic = only("AWS::SNS::Topic", stage)[1]["Properties"]
    return templates.resources("AWS::KMS::Key", stage)[attribute(topic["KmsMasterKeyId"])]


def key_policy(stage: str) -> list[Statement]:
    return of_document(topic_key(stage)["Properties"]["KeyPolicy"], stage)


def topic_policy(stage: str) -> list[Statement]:
    topic, _ = only("AWS::SNS::Topic", stage)
    properties = only("AWS::SNS::TopicPolicy", stage)[1]["Properties"]
    assert properties["Topics"] == [{"Ref": topic}]
    return of_document(properties["PolicyDocument"], stage)


def undelivered(stage: str) -> Any:
    """Return the logical id and the resource of the queue of undelivered alerts."""
    queues = templates.resources("AWS::SQS::Queue", stage)
    (found,) = (one for one in queues.items() if name(one[0]) == "PagerUndelivered")
    return found


def queue_policy(stage: str) -> list[Statement]:
    """Return the statements of the one policy that names the queue; it names no other queue."""
    queue, _ = undelivered(stage)
    policies = [one["Properties"] for one in templates.resources("AWS::SQS::QueuePolicy", stage).values()]
    (properties,) = (one for one in policies if {"Ref": queue} in one["Queues"])
    assert properties["Queues"] == [{"Ref": queue}]
    return of_document(properties["PolicyDocument"], stage)


@each_stage
def test_the_bus_is_the_stages_own(stage: str) -> None:
    """On the account's default bus, other rules would match our events, and our rule other events."""
    _, resource = only("AWS::Events::EventBus", stage)

    assert resource["Properties"]["Name"] == f"settlement-{stage}"


@each_stage
def test_only_this_account_puts_events_on_the_bus(stage: str) -> None:
    assert templates.resources("AWS::Events::EventBusPolicy", stage) == {}
    assert "Policy" not in only("AWS::Events::EventBus", stage)[1]["Properties"]


@each_stage
def test_these_are_the_rules(stage: str) -> None:
    found = [name(one) for one in templates.resources("AWS::Events::Rule", stage)]

    assert sorted(found) == sorted(RULES)


@each_stage
def test_the_rule_matches_the_machines_events_about_limbo(stage: str) -> None:
    rule = rules.properties(stage, LIMBO)

    assert rule["EventBusName"] == {"Ref": bus(stage)}
    assert rule["State"] == "ENABLED"
    assert rule["EventPattern"] == {
        "source": ["settlement"],
        "detail-type": ["LimboEntered", "LimboResolved"],
    }


@each_stage
def test_every_event_of_the_machine_matches_the_rule(stage: str) -> None:
    """A bus silently drops an event that no rule matches."""
    pattern = rules.properties(stage, LIMBO)["EventPattern"]
    entries = [
        entry
        for state in definition(stage, "Compensation")["States"].values()
        if state.get("Resource", "").endswith(":events:putEvents")
        for entry in state["Parameters"]["Entries"]
    ]

    assert sorted(entry["DetailType"] for entry in entries) == sorted(pattern["detail-type"])
    for entry in entries:
        assert [entry["Source"]] == pattern["source"]
        assert entry["EventBusName"] == "${EventBus}"


@each_stage
def test_the_message_is_the_events_detail_alone(stage: str) -> None:
    assert target(stage, LIMBO)["InputPath"] == "$.detail"
    assert not target(stage, LIMBO).keys() & {"Input", "InputTransformer"}


@each_rule
def test_a_matched_event_goes_to_the_topic(stage: str, rule: str) -> None:
    topic, _ = only("AWS::SNS::Topic", stage)

    assert target(stage, rule)["Arn"] == {"Ref": topic}


@each_rule
def test_delivery_is_tried_for_a_quarter_of_an_hour(stage: str, rule: str) -> None:
    """An alert that is retried for a day helps no one; in the queue it sets off an alarm.

    By default EventBridge makes up to 185 attempts, the maximum: time alone decides.
    """
    policy = target(stage, rule)["RetryPolicy"]

    assert policy["MaximumEventAgeInSeconds"] == 15 * 60
    assert policy.get("MaximumRetryAttempts", 185) == 185


@each_rule
def test_an_undelivered_alert_goes_to_the_queue(stage: str, rule: str) -> None:
    queue, _ = undelivered(stage)

    assert attribute(target(stage, rule)["DeadLetterConfig"]["Arn"]) == queue


@each_stage
def test_an_undelivered_alert_is_kept_for_two_weeks(stage: str) -> None:
    _, resource = undelivered(stage)

    assert resource["Properties"]["MessageRetentionPeriod"] == 14 * 86_400


@each_stage
def test_the_queue_is_encrypted_without_a_key_that_eventbridge_would_need(stage: str) -> None:
    _, resource = undelivered(stage)

    assert resource["Properties"]["SqsManagedSseEnabled"] is True
    assert "KmsMasterKeyId" not in resource["Properties"]


@each_stage
def test_only_the_rules_put_alerts_into_the_queue(stage: str) -> None:
    """EventBridge drops an alert for good if it may not send to the queue."""
    queue, _ = undelivered(stage)
    arns = [{"Fn::GetAtt": [rules.logical_id(stage, rule), "Arn"]} for rule in RULES]

    allowed = [one for one in queue_policy(stage) if one.effect == "Allow"]

    for one in allowed:
        assert one.principals == {"events.amazonaws.com"}
        assert one.actions == {"sqs:SendMessage"}
        assert one.resources == (queue,)
    admitted = [one.conditions for one in allowed]
    assert len(admitted) == len(arns)
    for arn in arns:
        assert {"ArnEquals": {"aws:SourceArn": arn}} in admitted


@each_stage
def test_the_queue_takes_and_gives_nothing_over_plain_http(stage: str) -> None:
    queue, _ = undelivered(stage)

    (denied,) = (one for one in queue_policy(stage) if one.effect == "Deny")

    assert denied.principals == {"*"}
    assert denied.actions == {"sqs:*"}
    assert denied.resources == (queue,)
    assert denied.conditions == OVER_PLAIN_HTTP


@each_stage
def test_the_topic_takes_nothing_over_plain_http(stage: str) -> None:
    topic, _ = only("AWS::SNS::Topic", stage)

    (denied,) = (one for one in topic_policy(stage) if one.effect == "Deny")

    assert denied.principals == {"*"}
    assert denied.actions == {"sns:Publish"}
    assert denied.resources == (topic,)
    assert denied.conditions == OVER_PLAIN_HTTP


@each_publisher
def test_the_topic_admits_each_publisher(stage: str, publisher: str) -> None:
    """Without its condition an alarm of another account could publish to our topic."""
    topic, _ = only("AWS::SNS::Topic", stage)

    found = [one for one in topic_policy(stage) if one.effect == "Allow" and publisher in one.principals]

    assert found
    for one in found:
        assert one.actions == {"sns:Publish"}
        assert one.resources == (topic,)
        assert one.conditions == ADMITTED_IF[publisher]


@each_stage
def test_the_topic_admits_no_other_publisher(stage: str) -> None:
    admitted = {one for found in topic_policy(stage) if found.effect == "Allow" for one in found.principals}

    assert admitted == set(PUBLISHERS)


@each_publisher
def test_each_publisher_may_use_the_topics_key(stage: str, publisher: str) -> None:
    """Without it the publisher gets an error, and its alert is lost."""
    found = [one for one in key_policy(stage) if publisher in one.principals]

    assert {one.effect for one in found} == {"Allow"}
    assert {action for one in found for action in one.actions if not one.conditions} == KEY_USE


@each_publisher
def test_no_publisher_may_do_more_with_the_topics_key(stage: str, publisher: str) -> None:
    """SNS asks a publisher for these two actions only."""
    found = [one for one in key_policy(stage) if publisher in one.principals]

    assert {action for one in found for action in one.actions} == KEY_USE


@each_stage
def test_no_other_principal_may_use_the_topics_key(stage: str) -> None:
    """The account itself governs it, as it governs the table's."""
    root = "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"
    principals = {one for found in key_policy(stage) for one in found.principals}
    (governing,) = (one for one in key_policy(stage) if "kms:*" in one.actions)

    assert principals == {root, *PUBLISHERS}
    assert governing.effect == "Allow"
    assert governing.principals == {root}


@each_stage
def test_the_topics_key_is_its_own_and_rotates(stage: str) -> None:
    """A publisher that may use the table's key could decrypt rows."""
    table = only("AWS::DynamoDB::Table", stage)[1]["Properties"]["SSESpecification"]["KMSMasterKeyId"]
    topic = only("AWS::SNS::Topic", stage)[1]["Properties"]["KmsMasterKeyId"]

    assert topic != table
    assert topic_key(stage)["Properties"]["EnableKeyRotation"] is True


@each_lasting_stage
def test_where_money_is_real_the_way_of_an_alert_outlives_the_stack(stage: str) -> None:
    """An alert in the queue has reached no person yet, and would be lost with the queue."""
    for resource in (topic_key(stage), undelivered(stage)[1]):
        assert resource["DeletionPolicy"] == resource["UpdateReplacePolicy"] == "Retain"


def test_the_embedded_stages_key_and_queue_go_with_it() -> None:
    for resource in (topic_key("local"), undelivered("local")[1]):
        assert resource["DeletionPolicy"] == resource["UpdateReplacePolicy"] == "Delete"
