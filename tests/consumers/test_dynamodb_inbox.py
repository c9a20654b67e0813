import json
from collections import Counter
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.consumers import dynamodb_inbox
from tests.consumers.events import HISTORIES, PAID, bad_messages, event, history
from tests.consumers.faults import Dying, Killed
from tests.world.ledger import Ledger
from tests.world.memory_dynamodb import Changes, MemoryDynamoDb

KEYS = ("order-2026-000101", "order-2026-000102")
FAULTS = ("none", "none", "dies before", "dies after", "answer lost", "conflict")


def order(client: Any, key: str) -> None:
    client.put_item(
        TableName="orders", Item={"pk": {"S": key}, "sk": {"S": "order"}, "payment": {"S": "PENDING"}}
    )


def payment(client: Any, key: str, table: str = "orders") -> tuple[str, int]:
    row = client.get_item(TableName=table, Key={"pk": {"S": key}, "sk": {"S": "order"}}, ConsistentRead=True)[
        "Item"
    ]
    return row["payment"]["S"], int(row.get("changes", {"N": "0"})["N"])


def deliver(bodies: Sequence[str]) -> list[int]:
    """Deliver a batch; return the indices of messages to redeliver."""
    records = [{"messageId": str(place), "body": body} for place, body in enumerate(bodies)]
    try:
        answer = dynamodb_inbox.handler({"Records": records}, None)
    except Killed:
        return list(range(len(bodies)))
    return [int(failed["itemIdentifier"]) for failed in answer["batchItemFailures"]]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> MemoryDynamoDb:
    client = MemoryDynamoDb()
    for key in KEYS:
        order(client, key)
    monkeypatch.setenv("ORDERS_TABLE", "orders")
    monkeypatch.setattr(dynamodb_inbox, "dynamodb", client)
    return client


@given(
    histories=st.tuples(*(st.sampled_from(HISTORIES) for _ in KEYS)),
    again=st.lists(st.integers(0, 99), max_size=8),
    faults=st.lists(st.sampled_from(FAULTS), max_size=30),
    batch=st.integers(1, 5),
    draw=st.data(),
)
@settings(deadline=None, database=None, print_blob=True, max_examples=300)
def test_each_effect_comes_at_most_once_and_the_latest_stays(
    histories: tuple[tuple[str, ...], ...],
    again: list[int],
    faults: list[str],
    batch: int,
    draw: st.DataObject,
) -> None:
    applied: list[tuple[str, int]] = []

    def committed(changes: Changes) -> None:
        applied.extend(
            (row["pk"]["S"], int(row["last_sequence"]["N"]))
            for _, row in changes
            if row and "last_sequence" in row
        )

    client = MemoryDynamoDb(committed)
    for key in KEYS:
        order(client, key)
    sent = [body for key, statuses in zip(KEYS, histories, strict=True) for body in history(key, statuses)]
    sent += [sent[place % len(sent)] for place in again]
    queue = draw.draw(st.permutations(sent))

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ORDERS_TABLE", "orders")
        patched.setattr(dynamodb_inbox, "dynamodb", Dying(client, faults))
        while queue:
            taken, queue = queue[:batch], queue[batch:]
            queue += [taken[place] for place in deliver(taken)]

    counted = Counter(key for key, _ in applied)
    for key, statuses in zip(KEYS, histories, strict=True):
        sequences = [sequence for one, sequence in applied if one == key]
        assert sequences == sorted(set(sequences))
        assert sequences[-1] == len(statuses)
        assert payment(client, key) == (PAID.get(statuses[-1], "PENDING"), counted[key])


@pytest.mark.parametrize(("body", "words"), bad_messages(KEYS[0]), ids=count())
def test_a_malformed_message_logs_one_line_and_stops_no_other(
    client: MemoryDynamoDb, capsys: pytest.CaptureFixture[str], body: str, words: str
) -> None:
    good = (json.dumps(event(key, 2, "SETTLED")) for key in KEYS)

    failed = deliver([next(good), body, next(good)])

    assert failed == [1]
    (line,) = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert (told["level"], told["message_id"]) == ("ERROR", "1")
    assert told["error"].startswith(f"BadMessage: {words}")
    assert [payment(client, key) for key in KEYS] == [("PAID", 1)] * 2


def test_an_order_created_after_its_event_gets_it_on_redelivery(client: MemoryDynamoDb) -> None:
    body = json.dumps(event("order-2026-000103", 4, "SETTLED"))

    first = deliver([body])
    order(client, "order-2026-000103")
    second = deliver([body])

    assert (first, second) == ([0], [])
    assert payment(client, "order-2026-000103") == ("PAID", 1)


@pytest.mark.server
def test_dynamodb_itself_accepts_and_refuses_the_same_writes(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, client, table = KEYS[0], ledger.client, ledger.table_name
    client.put_item(
        TableName=table, Item={"pk": {"S": key}, "sk": {"S": "order"}, "payment": {"S": "PENDING"}}
    )
    monkeypatch.setenv("ORDERS_TABLE", table)
    monkeypatch.setattr(dynamodb_inbox, "dynamodb", client)
    bodies = history(key, HISTORIES[3])
    unknown = json.dumps(event("order-2026-000999", 1, "REJECTED"))

    failed = deliver([bodies[2], bodies[2], bodies[1], unknown, bodies[6], bodies[5]])

    assert failed == [3]
    assert payment(client, key, table) == ("NOT_PAID", 2)
