"""The way of an alert: a bus, rules, an encrypted topic, and a queue for undelivered alerts."""

from typing import Any

import pytest

from tests.infra.stack import (
    KEPT,
    allow,
    attached,
    context,
    definition,
    each_stage,
    no_plain_http,
    only,
    permissions,
    properties,
    resources,
)

RULES = {
    "PagerRule": ("LimboEntered", "${PagerTopic}"),
    "PagerBrokenGlassRule": ("GlassBroken", "${PagerTopic}"),
    "PagerResolvedRule": ("LimboResolved", "${PagerInformationTopic}"),
}
"""The rules for the machine's events about LIMBO, and their topics: a decision taken pages no person."""

TOPICS = ("${PagerTopic}", "${PagerMorningTopic}", "${PagerInformationTopic}")
EVENTS, CLOUDWATCH = "events.amazonaws.com", "cloudwatch.amazonaws.com"
QUEUE = "${PagerUndelivered.Arn}"
ROOT = "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"
OUR_ACCOUNT = {"StringEquals": {"aws:SourceAccount": "${AWS::AccountId}"}}

each_rule = pytest.mark.parametrize("rule", RULES)
each_topic = pytest.mark.parametrize("topic", TOPICS)


def target(stage: str, rule: str) -> Any:
    """Return the one target of the rule."""
    (found,) = properties(stage, "Events::Rule")[rule]["Targets"]
    return found


@each_stage
def test_the_bus_is_the_stages_own_and_these_are_the_rules(stage: str) -> None:
    """On the account's default bus, other rules would match our events. The bus admits this account only."""
    assert only(stage, "Events::EventBus") == {"Name": f"settlement-{stage}"}
    assert resources(stage, "Events::Rule").keys() == RULES.keys()
    for rule in properties(stage, "Events::Rule").values():
        assert rule["State"] == "ENABLED"


@each_stage
def test_every_event_of_the_machine_matches_a_rule(stage: str) -> None:
    """A bus silently drops an event that no rule matches."""
    rules = properties(stage, "Events::Rule")
    entries = [
        entry
        for state in definition(stage, "Compensation")["States"].values()
        if state.get("Resource", "").endswith(":events:putEvents")
        for entry in state["Parameters"]["Entries"]
    ]

    for rule, (event, _) in RULES.items():
        assert rules[rule]["EventBusName"] == "${PagerBus}"
        assert rules[rule]["EventPattern"] == {"source": ["settlement"], "detail-type": [event]}
    machines = sorted(event for event, _ in RULES.values() if event != "GlassBroken")
    assert sorted(entry["DetailType"] for entry in entries) == machines
    for entry in entries:
        assert (entry["Source"], entry["EventBusName"]) == ("settlement", "${EventBus}")


@each_stage
@each_rule
def test_an_event_about_limbo_is_delivered_as_its_detail_alone(stage: str, rule: str) -> None:
    assert target(stage, rule)["InputPath"] == "$.detail"
    assert not target(stage, rule).keys() & {"Input", "InputTransformer"}


@each_stage
@each_rule
def test_an_alert_goes_to_its_topic_and_after_a_quarter_of_an_hour_to_the_queue(
    stage: str, rule: str
) -> None:
    """An alert that is retried for a day helps no one; in the queue it sets off an alarm.

    By default EventBridge makes up to 185 attempts, the maximum: time alone decides.
    """
    found = target(stage, rule)

    assert found["Arn"] == RULES[rule][1]
    assert found["RetryPolicy"]["MaximumEventAgeInSeconds"] == 15 * 60
    assert found["RetryPolicy"].get("MaximumRetryAttempts", 185) == 185
    assert found["DeadLetterConfig"] == {"Arn": QUEUE}


@each_stage
def test_an_address_of_the_settings_is_subscribed_to_what_pages_it(stage: str) -> None:
    address = context(stage).get("page_address")
    expected = [{"Endpoint": address, "Protocol": "email", "TopicArn": "${PagerTopic}"}] if address else []

    assert list(properties(stage, "SNS::Subscription").values()) == expected


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
        for arn in (f"${{{rule}.Arn}}" for rule in RULES)
    ]

    found = attached(stage, "SQS::QueuePolicy", "Queues", "${PagerUndelivered}")

    assert found == no_plain_http("sqs:*", QUEUE).union(*admitted)


@each_stage
@each_topic
def test_a_topic_admits_its_rule_and_this_accounts_alarms(stage: str, topic: str) -> None:
    """Without its condition an alarm of another account could publish to our topic."""
    by_rule = topic in {one for _, one in RULES.values()}

    assert attached(stage, "SNS::TopicPolicy", "Topics", topic) == (
        (allow("sns:Publish", on=[topic], by=EVENTS) if by_rule else set())
        | allow("sns:Publish", on=[topic], by=CLOUDWATCH, only_if=OUR_ACCOUNT)
        | no_plain_http("sns:Publish", topic)
    )


@each_stage
def test_the_topics_share_a_key_of_their_own_and_each_publisher_may_use_it(stage: str) -> None:
    """Without it the publisher gets an error, and its alert is lost. SNS asks it for these actions only.

    A publisher that may use the table's key could decrypt rows.
    """
    key = properties(stage, "KMS::Key")["PagerKey"]
    use = [allow("kms:Decrypt", "kms:GenerateDataKey*", on=["*"], by=by) for by in (EVENTS, CLOUDWATCH)]

    assert list(properties(stage, "SNS::Topic").values()) == [{"KmsMasterKeyId": "${PagerKey.Arn}"}] * 3
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
