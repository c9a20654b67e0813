"""A queue that receives all events of an embedded stage, to check their contracts.

`tests/unit/events/test_asyncapi.py` compares the AsyncAPI's messages with the event schema.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from settle.stack import Stack
from tests.world.contracts import checked_event, checked_page

_NAME = "every-event"
_BUSES = ("OutcomeBusName", "EventBusName")
_TRIAL = "this is a test of the pager"
"""Start of the dead-pager runbook's test event."""


def listen(stack: Stack) -> None:
    """Listen to a stage's events, including LIMBO and circuit. Safe to repeat."""
    sqs, events = stack.client("sqs"), stack.client("events")
    url = sqs.create_queue(QueueName=_NAME)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    for output in _BUSES:
        bus = stack.outputs[output]
        events.put_rule(Name=_NAME, EventBusName=bus, EventPattern=json.dumps({"source": ["settlement"]}))
        events.put_targets(Rule=_NAME, EventBusName=bus, Targets=[{"Id": "queue", "Arn": arn}])


def check(stack: Stack) -> Counter[str]:
    """Check the contract of all events so far; return their number by type."""
    heard, broken = Counter[str](), []
    for told in _received(stack):
        heard[told["detail-type"]] += 1
        try:
            _check(told["detail-type"], told["detail"])
        except AssertionError as fault:
            broken.append(str(fault))
    assert not broken, f"{len(broken)} events break their contract, the first one: {broken[0]}"
    return heard


def _check(kind: str, detail: Any) -> None:
    if kind.startswith("settlement."):
        assert checked_event(detail)["type"] == kind
    elif not detail.get("summary", "").startswith(_TRIAL):
        checked_page(kind, detail)


def _received(stack: Stack) -> Iterator[dict[str, Any]]:
    sqs = stack.client("sqs")
    url = sqs.get_queue_url(QueueName=_NAME)["QueueUrl"]
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        yield from (json.loads(one["Body"]) for one in messages)
        entries = [{"Id": one["MessageId"], "ReceiptHandle": one["ReceiptHandle"]} for one in messages]
        sqs.delete_message_batch(QueueUrl=url, Entries=entries)
