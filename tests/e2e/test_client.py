import json
from collections.abc import Callable

import boto3
import pytest

from settle.door import embedded_url
from settlement_client import (
    Action,
    Client,
    DynamoDbInbox,
    IdempotencyConflict,
    InvalidRequest,
    NotFound,
    Request,
    parse_event,
)
from tests.e2e.embedded import Embedded, new_key, new_request, paid_once
from tests.e2e.hearing import hearing

pytestmark = pytest.mark.long

DOORS: dict[str, Callable[[Client, Request], object]] = {
    "Express": Client.start_express,
    "Standard": Client.start_standard,
    "the queue": Client.send,
    "HTTP": Client.start,
}


@pytest.fixture
def client(embedded: Embedded, monkeypatch: pytest.MonkeyPatch) -> Client:
    for name, value in embedded.running().variables().items():
        monkeypatch.setenv(name, value)
    outputs = embedded.stack.outputs
    return Client(
        express_arn=outputs["SettlementExpressArn"],
        standard_arn=outputs["SettlementStandardArn"],
        queue_url=outputs["StartQueueUrl"],
        api_url=embedded_url(outputs["SettlementsApiUrl"], str(embedded.stack.endpoint_url)),
        session=boto3.Session(),
    )


@pytest.mark.parametrize("door", DOORS)
def test_a_payment_started_by_each_method_is_paid_once(embedded: Embedded, client: Client, door: str) -> None:
    content = new_request(embedded)
    request = Request(**content)

    for _ in range(2):
        DOORS[door](client, request)
    found = client.wait(request.key, seconds=60)

    assert found.outcome.is_paid
    assert found.outcome.next.action is Action.NOTHING
    assert client.status(request.key) == found
    assert paid_once(embedded, content)


def test_refusals_and_unknown_keys_raise_their_own_errors(embedded: Embedded, client: Client) -> None:
    content = new_request(embedded)
    client.start_express(Request(**content))

    with pytest.raises(IdempotencyConflict):
        client.start_express(Request(**content | {"deadline_seconds": 120}))
    with pytest.raises(InvalidRequest, match="currency: must be one of"):
        client.start_express(Request(**content | {"key": new_key("order"), "currency": "XXX"}))
    with pytest.raises(NotFound):
        client.status(new_key("order"))
    assert paid_once(embedded, content)


def test_the_inbox_applies_each_event_of_a_payment_once(embedded: Embedded, client: Client) -> None:
    request = Request(**new_request(embedded))
    dynamodb, table = embedded.stack.client("dynamodb"), new_key("inbox")
    names = ("pk", "HASH"), ("sk", "RANGE")
    dynamodb.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in names],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in names],
        BillingMode="PAY_PER_REQUEST",
    )
    inbox = DynamoDbInbox(dynamodb, table)

    with hearing(embedded) as heard:
        outcome = client.start_express(request)
        heard.wait_for(request.key)
        events = [parse_event(json.dumps({"detail": told})) for told in heard.of(request.key)]
    applied = [inbox.newer(event.key, event.sequence) for event in [*events, *events]]
    dynamodb.delete_table(TableName=table)

    assert applied == [True] * len(events) + [False] * len(events)
    assert events[-1].outcome == outcome
    assert events[-1].sequence == client.status(request.key).sequence
