"""The way of a page: a bus, a rule, an encrypted topic, and a queue for what does not get there."""

from typing import Any

import pytest

from infra.settings import STAGES
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
"""Who publishes to the topic, and under what condition the topic's policy admits them."""

each_lasting_stage = pytest.mark.parametrize("stage", ["dev", "prod"])
each_publisher = pytest.mark.parametrize(
    ("stage", "publisher"), [(stage, publisher) for stage in STAGES for publisher in PUBLISHERS]
)

KEY_USE = {"kms:Decrypt", "kms:GenerateDataKey*"}
OVER_PLAIN_HTTP = {"Bool": {"aws:SecureTransport": "false"}}


def only(kind: str, stage: str) -> Any:
    """The logical id and the resource of the one of its kind."""
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
    """The logical id and the resource of the queue of pages that have not arrived; the others take starts."""
    queues = templates.resources("AWS::SQS::Queue", stage)
    (found,) = (one for one in queues.items() if name(one[0]) == "PagingUndelivered")
    return found


def queue_policy(stage: str) -> list[Statement]:
    """What the one policy that names the queue says; it names no other queue."""
    queue, _ = undelivered(stage)
    policies = [one["Properties"] for one in templates.resources("AWS::SQS::QueuePolicy", stage).values()]
    (properties,) = (one for one in policies if {"Ref": queue} in one["Queues"])
    assert properties["Queues"] == [{"Ref": queue}]
    return of_document(properties["PolicyDocument"], stage)


@each_stage
def test_the_bus_is_the_stages_own(stage: str) -> None:
    """On the account's default bus anybody's rule would see our events, and anybody's events our rule."""
    _, resource = only("AWS::Events::EventBus", stage)

    assert resource["Properties"]["Name"] == f"settlement-{stage}"


@each_stage
def test_nobody_but_this_account_puts_events_on_the_bus(stage: str) -> None:
    assert templates.resources("AWS::Events::EventBusPolicy", stage) == {}
    assert "Policy" not in only("AWS::Events::EventBus", stage)[1]["Properties"]


@each_stage
def test_these_are_the_rules(stage: str) -> None:
    found = [name(one) for one in templates.resources("AWS::Events::Rule", stage)]

    assert sorted(found) == sorted(RULES)


@each_stage
def test_the_rule_takes_what_the_machine_says_of_limbo(stage: str) -> None:
    rule = rules.properties(stage, LIMBO)

    assert rule["EventBusName"] == {"Ref": bus(stage)}
    assert rule["State"] == "ENABLED"
    assert rule["EventPattern"] == {
        "source": ["settlement"],
        "detail-type": ["LimboEntered", "LimboResolved"],
    }


@each_stage
def test_every_event_of_the_machine_matches_the_rule(stage: str) -> None:
    """A bus drops without a word what no rule asks for."""
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
def test_the_message_is_the_events_detail_and_nothing_around_it(stage: str) -> None:
    assert target(stage, LIMBO)["InputPath"] == "$.detail"
    assert not target(stage, LIMBO).keys() & {"Input", "InputTransformer"}


@each_rule
def test_what_a_rule_takes_goes_to_the_topic(stage: str, rule: str) -> None:
    topic, _ = only("AWS::SNS::Topic", stage)

    assert target(stage, rule)["Arn"] == {"Ref": topic}


@each_rule
def test_delivery_is_given_up_after_a_quarter_of_an_hour_and_not_sooner(stage: str, rule: str) -> None:
    """A page that is tried for a day is in nobody's hands; in the queue it sets off an alarm.

    Where nothing is said of attempts EventBridge makes 185, the most there can be: time alone decides.
    """
    policy = target(stage, rule)["RetryPolicy"]

    assert policy["MaximumEventAgeInSeconds"] == 15 * 60
    assert policy.get("MaximumRetryAttempts", 185) == 185


@each_rule
def test_what_is_not_delivered_goes_to_the_queue(stage: str, rule: str) -> None:
    queue, _ = undelivered(stage)

    assert attribute(target(stage, rule)["DeadLetterConfig"]["Arn"]) == queue


@each_stage
def test_what_is_not_delivered_is_kept_for_two_weeks(stage: str) -> None:
    _, resource = undelivered(stage)

    assert resource["Properties"]["MessageRetentionPeriod"] == 14 * 86_400


@each_stage
def test_the_queue_is_encrypted_without_a_key_that_eventbridge_would_need(stage: str) -> None:
    _, resource = undelivered(stage)

    assert resource["Properties"]["SqsManagedSseEnabled"] is True
    assert "KmsMasterKeyId" not in resource["Properties"]


@each_stage
def test_only_the_rules_put_pages_into_the_queue(stage: str) -> None:
    """EventBridge drops a page for good where it may not send to the queue."""
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
    """Without its condition an alarm of any other account could page ours."""
    topic, _ = only("AWS::SNS::Topic", stage)

    found = [one for one in topic_policy(stage) if one.effect == "Allow" and publisher in one.principals]

    assert found
    for one in found:
        assert one.actions == {"sns:Publish"}
        assert one.resources == (topic,)
        assert one.conditions == ADMITTED_IF[publisher]


@each_stage
def test_the_topic_admits_nobody_else(stage: str) -> None:
    admitted = {one for found in topic_policy(stage) if found.effect == "Allow" for one in found.principals}

    assert admitted == set(PUBLISHERS)


@each_publisher
def test_each_publisher_may_use_the_topics_key(stage: str, publisher: str) -> None:
    """Where one may not, the publisher is told so, and its page is in nobody's hands."""
    found = [one for one in key_policy(stage) if publisher in one.principals]

    assert {one.effect for one in found} == {"Allow"}
    assert {action for one in found for action in one.actions if not one.conditions} == KEY_USE


@each_publisher
def test_no_publisher_may_do_more_with_the_topics_key(stage: str, publisher: str) -> None:
    """SNS asks a publisher for these two; who may encrypt or re-encrypt as well may do so at will."""
    found = [one for one in key_policy(stage) if publisher in one.principals]

    assert {action for one in found for action in one.actions} == KEY_USE


@each_stage
def test_nobody_else_may_use_the_topics_key(stage: str) -> None:
    """The account itself governs it, as it governs the table's."""
    root = "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"
    principals = {one for found in key_policy(stage) for one in found.principals}
    (governing,) = (one for one in key_policy(stage) if "kms:*" in one.actions)

    assert principals == {root, *PUBLISHERS}
    assert governing.effect == "Allow"
    assert governing.principals == {root}


@each_stage
def test_the_topics_key_is_its_own_and_rotates(stage: str) -> None:
    """A service that may use the table's key could read what is encrypted with it."""
    table = only("AWS::DynamoDB::Table", stage)[1]["Properties"]["SSESpecification"]["KMSMasterKeyId"]
    topic = only("AWS::SNS::Topic", stage)[1]["Properties"]["KmsMasterKeyId"]

    assert topic != table
    assert topic_key(stage)["Properties"]["EnableKeyRotation"] is True


@each_lasting_stage
def test_where_money_is_real_the_way_of_a_page_outlives_the_stack(stage: str) -> None:
    """What lies in the queue is a page that nobody got, and it would be lost with the queue."""
    for resource in (topic_key(stage), undelivered(stage)[1]):
        assert resource["DeletionPolicy"] == resource["UpdateReplacePolicy"] == "Retain"


def test_the_embedded_stages_key_and_queue_go_with_it() -> None:
    for resource in (topic_key("local"), undelivered("local")[1]):
        assert resource["DeletionPolicy"] == resource["UpdateReplacePolicy"] == "Delete"
