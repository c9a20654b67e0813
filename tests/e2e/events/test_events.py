import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from settle.orders import reversal
from settle.settlements.machines import Machine
from settle.settlements.start import start
from settlement.core.store.wire import to_wire
from tests.e2e.embedded import Embedded, at_once, new_account, new_key, new_request
from tests.e2e.hearing import Heard, hearing
from tests.e2e.stuck import settled, stuck
from tests.world.contracts import checked_event

pytestmark = pytest.mark.long

HAPPY = ["held", "verified", "released", "settled"]


@pytest.fixture
def heard(embedded: Embedded) -> Iterator[Heard]:
    with hearing(embedded) as heard:
        yield heard


@pytest.mark.parametrize("machine", [Machine.EXPRESS, Machine.STANDARD])
def test_a_payments_events_report_each_step_and_finally_its_outcome(
    embedded: Embedded, heard: Heard, machine: Machine
) -> None:
    request = new_request(embedded)
    ended = start(embedded.stack, machine, json.dumps(request))

    assert heard.wait_for(request["key"]) == HAPPY
    last = heard.of(request["key"])[-1]
    assert last["source"] == embedded.stack.name
    assert last["data"] == ended.outcome


def test_a_service_learns_of_a_queued_payments_outcome_by_events(embedded: Embedded, heard: Heard) -> None:
    request = new_request(embedded)
    url = embedded.stack.outputs["StartQueueUrl"]
    embedded.stack.client("sqs").send_message(QueueUrl=url, MessageBody=json.dumps(request))

    embedded.wait_for(lambda: "SETTLED" in {one["data"]["status"] for one in heard.of(request["key"])})

    assert heard.wait_for(request["key"]) == ["claimed", *HAPPY]


def test_rejection_reversal_and_limbo_each_publish_events(embedded: Embedded, heard: Heard) -> None:
    poor = new_request(embedded, payer=new_account(embedded, "poor", "1.00"))
    start(embedded.stack, Machine.EXPRESS, json.dumps(poor))
    one = settled(embedded)
    reversal.reverse(embedded.stack, one.key, "the goods came back")
    embedded.wait_for(lambda: one.row()["status"] == "LIMBO")

    assert heard.wait_for(poor["key"]) == ["rejected"]
    assert heard.of(poor["key"])[0]["data"]["failure"]["error"] == "InsufficientFunds"
    assert heard.wait_for(one.key) == [*HAPPY, "reversal_ordered", "fee_refunded", "limbo"]
    assert heard.of(one.key)[-1]["data"]["failure"]["error"] == "InsufficientFunds"

    one.pay_back()
    embedded.told("limbo", "resolve", one.key, "retry", "--reason", "the payee has paid")
    embedded.wait_for(lambda: one.row()["status"] == "COMPENSATED")

    assert heard.wait_for(one.key)[7:] == ["resolved", "reclaimed", "compensated"]


Trouble = Callable[[Embedded], AbstractContextManager[None]]
TROUBLES: dict[str, Trouble] = {
    "denied": lambda embedded: embedded.without_grants("PublishEvents", "events:PutEvents"),
    "killed": lambda embedded: embedded.frozen("PublishEvents"),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_no_event_is_lost_while_the_publisher_fails(
    embedded: Embedded, heard: Heard, trouble: Trouble
) -> None:
    payer = new_account(embedded, "dora", "100.00")
    requests = [new_request(embedded, payer=payer, amount="1.00", fee="0.00") for _ in range(12)]

    with trouble(embedded):
        at_once(
            [lambda one=one: start(embedded.stack, Machine.EXPRESS, json.dumps(one)) for one in requests], 6
        )
        assert heard.more() == []

    for request in requests:
        assert heard.wait_for(request["key"]) == HAPPY
    assert {event["subject"] for event in heard.events} == {one["key"] for one in requests}


def test_an_unpublishable_settlement_is_put_aside_and_replayed_after_repair(
    embedded: Embedded, heard: Heard
) -> None:
    request, other = new_request(embedded), new_request(embedded)
    key = request["key"]
    start(embedded.stack, Machine.EXPRESS, json.dumps(request))
    heard.wait_for(key)
    row, table = embedded.settlement(key), embedded.stack.outputs["TableName"]

    embedded.dynamodb.put_item(TableName=table, Item=to_wire(row | {"status": "NONSENSE"}))
    start(embedded.stack, Machine.EXPRESS, json.dumps(other))
    assert heard.wait_for(other["key"]) == HAPPY
    aside = put_aside(embedded)
    embedded.dynamodb.put_item(TableName=table, Item=to_wire(row))
    again = put_aside(embedded)
    finished = embedded.settle("events", "replay", key)

    assert (aside["key"], aside["reason"]) == (key, f"SETTLEMENT#{key}: 'NONSENSE' is not a valid Status")
    assert again["key"] == key
    assert (finished.returncode, finished.stderr) == (0, "1 settlements told\n")
    embedded.wait_for(lambda: heard.more()[-1].get("replayed") is True)
    snapshot = heard.events[-1]
    assert (snapshot["id"], snapshot["type"]) == (f"{key}:4", "settlement.snapshot")
    assert snapshot["data"]["status"] == "SETTLED"


def test_replay_limbo_publishes_each_settlement_in_limbo_again(embedded: Embedded, heard: Heard) -> None:
    one = stuck(embedded)

    finished = embedded.settle("events", "replay", "--limbo")

    assert finished.returncode == 0, finished
    embedded.wait_for(
        lambda: any(event.get("replayed") and event["subject"] == one.key for event in heard.more())
    )


def test_tail_shows_a_payments_events_until_its_end(embedded: Embedded) -> None:
    request = new_request(embedded)
    with ThreadPoolExecutor() as beside:
        shown = beside.submit(embedded.settle, "events", "tail", "--key", request["key"], "--json")
        embedded.wait_for(lambda: bool(tails(embedded)))
        start(embedded.stack, Machine.STANDARD, json.dumps(request))
        finished = shown.result()

    assert finished.returncode == 0, finished
    told = [checked_event(json.loads(line)) for line in finished.stdout.splitlines()]
    assert told[-1]["data"]["status"] == "SETTLED"
    assert {event["subject"] for event in told} == {request["key"]}
    assert tails(embedded) == []


def tails(embedded: Embedded) -> list[str]:
    """Return the rules of listening `settle events tail` commands. Other rules have no target."""
    events, bus = embedded.stack.client("events"), embedded.stack.outputs["OutcomeBusName"]
    named = events.list_rules(EventBusName=bus, NamePrefix=f"{embedded.stack.name}-tail-")["Rules"]
    return [
        rule["Name"]
        for rule in named
        if events.list_targets_by_rule(Rule=rule["Name"], EventBusName=bus)["Targets"]
    ]


def test_the_ordered_topic_has_each_payments_events_in_order(embedded: Embedded) -> None:
    requests = [new_request(embedded) for _ in range(4)]

    with in_order(embedded) as received:
        at_once(
            [lambda one=one: start(embedded.stack, Machine.EXPRESS, json.dumps(one)) for one in requests], 4
        )
        embedded.wait_for(lambda: len(received()) == len(HAPPY) * len(requests))

        for request in requests:
            mine = [event["sequence"] for event in received() if event["subject"] == request["key"]]
            assert mine == [*"1234"]


@contextmanager
def in_order(embedded: Embedded) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """A queue on the ordered topic, and its events so far."""
    sqs, sns = embedded.stack.client("sqs"), embedded.stack.client("sns")
    found: list[dict[str, Any]] = []
    url = sqs.create_queue(QueueName=f"{new_key('ordered')}.fifo", Attributes={"FifoQueue": "true"})[
        "QueueUrl"
    ]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    topic = embedded.stack.outputs["OrderedTopicArn"]
    admitted = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [admitted]})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    subscribed = sns.subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes={"RawMessageDelivery": "true"}
    )

    def received() -> list[dict[str, Any]]:
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
            found.append(json.loads(message["Body"]))
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return found

    try:
        yield received
    finally:
        sns.unsubscribe(SubscriptionArn=subscribed["SubscriptionArn"])
        sqs.delete_queue(QueueUrl=url)


def put_aside(embedded: Embedded) -> dict[str, str]:
    sqs, url = embedded.stack.client("sqs"), embedded.stack.outputs["EventsPutAsideQueueUrl"]
    found: list[dict[str, str]] = []

    def has_come() -> bool:
        for message in sqs.receive_message(QueueUrl=url).get("Messages", []):
            found.append(json.loads(message["Body"]))
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return bool(found)

    embedded.wait_for(has_come)
    return found[0]
