import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.doors import BATCH_MAX, MESSAGE_BYTES_MAX
from tests.e2e.embedded import Embedded, new_key

pytestmark = pytest.mark.long

REASON = "InvalidRequest: message: must be JSON: Expecting value: line 1 column 1 (char 0)"
HIDDEN_SECONDS = 30
"""Visibility timeout, longer than the slowest batch."""


@contextmanager
def silent_sqs(embedded: Embedded) -> Iterator[None]:
    ours = embedded.stack.client("sqs").meta.endpoint_url
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        embedded.renew("StartSettlements", AWS_ENDPOINT_URL_SQS=f"http://127.0.0.1:{port}")
        try:
            yield
        finally:
            embedded.renew("StartSettlements", AWS_ENDPOINT_URL_SQS=ours)


@contextmanager
def soon_received_again(embedded: Embedded) -> Iterator[str]:
    """Hide received messages only briefly; yield the queue's address."""
    sqs, url = embedded.stack.client("sqs"), embedded.stack.outputs["StartQueueUrl"]
    name = "VisibilityTimeout"
    before = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={name: str(HIDDEN_SECONDS)})
    try:
        yield url
    finally:
        sqs.set_queue_attributes(QueueUrl=url, Attributes={name: before})


def put_aside(embedded: Embedded, *bodies: str) -> list[dict[str, str]]:
    """Take messages out of the dead-letter queue once all are there; return their attributes."""
    sqs, url = embedded.stack.client("sqs"), embedded.stack.outputs["StartDeadLetterQueueUrl"]
    found: dict[str, Any] = {}

    def there() -> bool:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"])
        for message in answer.get("Messages", []):
            if message["Body"] in bodies:
                found[message["Body"]] = message["MessageAttributes"]
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return found.keys() == set(bodies)

    embedded.wait_for(there)
    return [{name: value["StringValue"] for name, value in found[body].items()} for body in bodies]


def lines(embedded: Embedded, since_ms: int) -> list[dict[str, Any]]:
    logged = embedded.logged("StartSettlements", since_ms)
    return [json.loads(line) for line in logged if line.startswith("{")]


def test_the_largest_message_is_dead_lettered_whole_with_its_reason(embedded: Embedded) -> None:
    sqs, url = embedded.stack.client("sqs"), embedded.stack.outputs["StartQueueUrl"]
    largest = new_key("x").ljust(MESSAGE_BYTES_MAX, "x")

    sqs.send_message(QueueUrl=url, MessageBody=largest)
    with pytest.raises(ClientError, match="InvalidParameterValue"):
        sqs.send_message(QueueUrl=url, MessageBody=largest + "x")

    (attributes,) = put_aside(embedded, largest)
    assert attributes["reason"] == REASON


def test_malformed_messages_do_not_page_while_sqs_does_not_answer(
    embedded: Embedded,
) -> None:
    sqs, begun_ms = embedded.stack.client("sqs"), int(time.time() * 1000)
    bodies = [f"no json: {new_key('message')}" for _ in range(BATCH_MAX)]

    with soon_received_again(embedded) as url:
        with silent_sqs(embedded):
            entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies)]
            sqs.send_message_batch(QueueUrl=url, Entries=entries)
            told: list[dict[str, Any]] = []

            def tried() -> bool:
                told[:] = [line for line in lines(embedded, begun_ms) if line.get("message") == "not started"]
                return len({line["message_id"] for line in told}) == BATCH_MAX

            embedded.wait_for(tried)
        attributes = put_aside(embedded, *bodies)

    assert {line["error"] for line in told} == {"QueueUnavailable"}
    assert [one["reason"] for one in attributes] == [REASON] * BATCH_MAX
    assert not [line for line in lines(embedded, begun_ms) if "FunctionFailed" in line]
    assert not [line for line in lines(embedded, begun_ms) if "StartUnavailable" in line]
