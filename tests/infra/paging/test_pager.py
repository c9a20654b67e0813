import pytest

from tests.infra.stack import (
    ON_AWS,
    allow,
    attached,
    context,
    definition,
    each_stage,
    no_plain_http,
    of_function,
    permissions,
    properties,
    resources,
    variables,
)

RULE, SEND = "PagerRule", "${SendPage.Arn}"
TOLD = {"LimboEntered", "LimboResolved", "GlassBroken"}
"""Events that page people: the machine's two, and an order given without its second person."""

TOPICS = ("${PagerTopic}", "${PagerMorningTopic}", "${PagerInformationTopic}")
EVENTS, CLOUDWATCH = "events.amazonaws.com", "cloudwatch.amazonaws.com"
QUEUE = "${PagerUndelivered.Arn}"
ROOT = "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"
OUR_ACCOUNT = {"StringEquals": {"aws:SourceAccount": "${AWS::AccountId}"}}

each_topic = pytest.mark.parametrize("topic", TOPICS)


@each_stage
def test_each_stage_has_its_own_pager_bus_with_one_rule(stage: str) -> None:
    """On the default bus, other rules would match our events. The bus admits only this account."""
    (rule,) = properties(stage, "Events::Rule").values()

    assert properties(stage, "Events::EventBus")["PagerBus"] == {"Name": f"settlement-{stage}"}
    assert resources(stage, "Events::Rule").keys() == {RULE}
    assert (rule["State"], rule["EventBusName"]) == ("ENABLED", "${PagerBus}")


@each_stage
def test_every_event_of_the_machine_matches_the_rule(stage: str) -> None:
    """A bus silently drops an event that no rule matches."""
    pattern = properties(stage, "Events::Rule")[RULE]["EventPattern"]
    entries = [
        entry
        for state in definition(stage, "Compensation")["States"].values()
        if state.get("Resource", "").endswith(":events:putEvents")
        for entry in state["Parameters"]["Entries"]
    ]

    assert pattern["source"] == ["settlement"]
    assert {*pattern["detail-type"]} == TOLD
    assert {entry["DetailType"] for entry in entries} == TOLD - {"GlassBroken"}
    for entry in entries:
        assert (entry["Source"], entry["EventBusName"]) == ("settlement", "${EventBus}")


@each_stage
def test_an_event_undelivered_for_fifteen_minutes_goes_to_the_queue(stage: str) -> None:
    """A late page helps no one; in the queue, the event sets off an alarm.

    With the default of 185 attempts, only the event's age ends the retries.
    """
    (found,) = properties(stage, "Events::Rule")[RULE]["Targets"]
    config = of_function(stage, "SendPage", "Lambda::EventInvokeConfig")

    assert found["Arn"] == SEND
    assert not found.keys() & {"Input", "InputPath", "InputTransformer"}
    assert found["RetryPolicy"]["MaximumEventAgeInSeconds"] == 15 * 60
    assert found["RetryPolicy"].get("MaximumRetryAttempts", 185) == 185
    assert found["DeadLetterConfig"] == {"Arn": QUEUE}
    assert (config["MaximumRetryAttempts"], config["MaximumEventAgeInSeconds"]) == (2, 15 * 60)
    assert config["DestinationConfig"] == {"OnFailure": {"Destination": QUEUE}}


@each_stage
def test_only_the_rule_calls_the_function_which_knows_both_topics(stage: str) -> None:
    """A caller could page people with any text."""
    permission, known = of_function(stage, "SendPage", "Lambda::Permission"), variables(stage, "SendPage")

    assert (permission["Principal"], permission["SourceArn"]) == (EVENTS, f"${{{RULE}.Arn}}")
    assert (known["PAGE_TOPIC"], known["INFORMATION_TOPIC"]) == ("${PagerTopic}", "${PagerInformationTopic}")


@each_stage
def test_a_configured_address_is_subscribed_to_the_paging_topic(stage: str) -> None:
    address = context(stage).get("page_address")
    expected = [{"Endpoint": address, "Protocol": "email", "TopicArn": "${PagerTopic}"}] if address else []

    assert list(properties(stage, "SNS::Subscription").values()) == expected


@each_stage
def test_undelivered_alerts_stay_two_weeks_in_their_queues(stage: str) -> None:
    """EventBridge drops an event if the queue, or the queue's KMS key, denies access."""
    from_the_rule = {"ArnEquals": {"aws:SourceArn": f"${{{RULE}.Arn}}"}}

    assert properties(stage, "SQS::Queue")["PagerUndelivered"] == {
        "MessageRetentionPeriod": 14 * 86_400,
        "SqsManagedSseEnabled": True,
    }
    assert attached(stage, "SQS::QueuePolicy", "Queues", "${PagerUndelivered}") == (
        no_plain_http("sqs:*", QUEUE) | allow("sqs:SendMessage", on=[QUEUE], by=EVENTS, only_if=from_the_rule)
    )


@each_stage
@each_topic
def test_a_topic_accepts_only_this_accounts_alarms(stage: str, topic: str) -> None:
    """Without its condition, another account's alarm could publish to our topic."""
    by_alarms = allow("sns:Publish", on=[topic], by=CLOUDWATCH, only_if=OUR_ACCOUNT)

    found = attached(stage, "SNS::TopicPolicy", "Topics", topic)

    assert found == by_alarms | (no_plain_http("sns:Publish", topic) if stage in ON_AWS else set())


@each_stage
def test_the_topics_share_one_key_that_alarms_may_use(stage: str) -> None:
    """An alarm that may not use the key loses its alert. The table's key would also decrypt rows."""
    key = properties(stage, "KMS::Key")["PagerKey"]
    use = allow("kms:Decrypt", "kms:GenerateDataKey*", on=["*"], by=CLOUDWATCH)

    topics = properties(stage, "SNS::Topic")
    assert [one for name, one in topics.items() if name.startswith("Pager")] == [
        {"KmsMasterKeyId": "${PagerKey.Arn}"}
    ] * 3
    assert key["EnableKeyRotation"] is True
    assert set(permissions(key["KeyPolicy"])) == allow("kms:*", on=["*"], by=ROOT) | use
