import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from hypothesis import given
from hypothesis import strategies as st

from settlement_client import DynamoDbInbox, Event, MalformedAnswer, Outcome, Store, parse_event
from tests.client.payments import EVENTS, KEY, SETTLED
from tests.consumers.events import HISTORIES, event, history
from tests.consumers.faults import Dying
from tests.world.ledger import Ledger
from tests.world.memory_dynamodb import MemoryDynamoDb


def paid(key: str, status: str, table: str = "orders") -> dict[str, Any]:
    return {
        "Update": {
            "TableName": table,
            "Key": {"pk": {"S": key}, "sk": {"S": "order"}},
            "UpdateExpression": "SET payment = :payment ADD changes :one",
            "ConditionExpression": "attribute_exists(pk)",
            "ExpressionAttributeValues": {":payment": {"S": status}, ":one": {"N": "1"}},
        }
    }


def order(client: Any, table: str = "orders") -> None:
    client.put_item(TableName=table, Item={"pk": {"S": KEY}, "sk": {"S": "order"}})


def payment(client: Any, table: str = "orders") -> tuple[str | None, int]:
    row = client.get_item(TableName=table, Key={"pk": {"S": KEY}, "sk": {"S": "order"}}, ConsistentRead=True)
    found = row["Item"]
    return found.get("payment", {"S": None})["S"], int(found.get("changes", {"N": "0"})["N"])


def apply(inbox: DynamoDbInbox, body: str, table: str = "orders") -> bool:
    heard = parse_event(body)
    return inbox.newer(heard.key, heard.sequence, [paid(heard.key, heard.outcome.status, table)])


@pytest.mark.parametrize("wrap", [dict, json.dumps, lambda told: json.dumps(told).encode()], ids=range(3))
@pytest.mark.parametrize("enveloped", [True, False])
def test_an_event_parses_the_same_from_each_form_of_delivery(
    wrap: Callable[[Any], Any], enveloped: bool
) -> None:
    (example,) = EVENTS

    heard = parse_event(wrap({"source": "settlement", "detail": example} if enveloped else example))

    assert heard == Event(KEY, 4, "settlement.settled", heard.time, Outcome.from_json(SETTLED))
    assert heard.time == heard.outcome.finished_at


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{", "event: is no JSON"),
        ("[]", "event: must be a JSON object"),
        ("[" * 100_000, "event: is no JSON: RecursionError"),
        ('{"id": "1"}', "event.detail: is no JSON"),
        (lambda detail: detail.pop("sequence"), "event.sequence: missing"),
        (lambda detail: detail.update(sequence=4), "event.sequence: must be a string"),
        (lambda detail: detail.update(sequence="0"), "event.sequence: must match"),
        (lambda detail: detail.update(sequence="4\n"), "event.sequence: must match"),
        (lambda detail: detail.update(subject="order-2026-000999"), "event.subject: is not the key"),
        (lambda detail: detail.update(data=[]), "event.data: must be an object"),
        (lambda detail: detail["data"].update(status="PAID"), "outcome.status: 'PAID' is unknown"),
    ],
    ids=range(11),
)
def test_the_error_about_a_malformed_event_names_its_field(
    body: str | Callable[[dict[str, Any]], None], words: str
) -> None:
    if callable(body):
        message = event(KEY, 4, "SETTLED")
        body(message["detail"])
        body = json.dumps(message)

    with pytest.raises(MalformedAnswer) as malformed:
        parse_event(body)

    assert str(malformed.value).startswith(words)


@given(statuses=st.sampled_from(HISTORIES), draw=st.data())
def test_each_event_takes_effect_once_and_the_latest_stays(
    statuses: tuple[str, ...], draw: st.DataObject
) -> None:
    client = MemoryDynamoDb()
    order(client)
    bodies = draw.draw(st.permutations(history(KEY, statuses) * 2))

    applied = [parse_event(body).sequence for body in bodies if apply(DynamoDbInbox(client, "orders"), body)]

    assert applied == sorted({*applied})
    assert payment(client) == (statuses[-1], len(applied))


@pytest.mark.parametrize(
    ("fault", "error", "again"),
    [("conflict", ClientError, True), ("answer lost", ReadTimeoutError, False)],
)
def test_a_message_redelivered_after_a_fault_takes_effect_once(
    fault: str, error: type[Exception], again: bool
) -> None:
    client = MemoryDynamoDb()
    order(client)
    inbox = DynamoDbInbox(Dying(client, [fault]), "orders")
    (body,) = history(KEY, ("REJECTED",))

    with pytest.raises(error):
        apply(inbox, body)

    assert apply(inbox, body) is again
    assert payment(client) == ("REJECTED", 1)


def test_an_event_whose_effect_is_refused_can_be_applied_again() -> None:
    client = MemoryDynamoDb()
    inbox = DynamoDbInbox(client, "orders")
    (body,) = history(KEY, ("REJECTED",))

    with pytest.raises(ClientError):
        apply(inbox, body)
    order(client)

    assert apply(inbox, body)
    assert payment(client) == ("REJECTED", 1)


@pytest.mark.server
def test_dynamodb_itself_accepts_and_refuses_the_inboxs_writes(ledger: Ledger) -> None:
    order(ledger.client, ledger.table_name)
    inbox = DynamoDbInbox(ledger.client, ledger.table_name)
    bodies = history(KEY, HISTORIES[3])

    applied = [apply(inbox, bodies[place], ledger.table_name) for place in (2, 2, 1, 6, 5)]

    assert applied == [True, False, False, True, False]
    assert payment(ledger.client, ledger.table_name) == ("COMPENSATED", 2)


def test_a_dynamodb_inbox_implements_the_store_protocol() -> None:
    store: Store = DynamoDbInbox(MemoryDynamoDb(), "orders")

    assert [store.newer(KEY, sequence) for sequence in (2, 2, 1, 3)] == [True, False, False, True]
