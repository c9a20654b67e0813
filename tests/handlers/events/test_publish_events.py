import json
import os
from itertools import pairwise
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from handlers.events import publish_events
from settlement.core.ledger import keys
from settlement.core.model.errors import EventsUnavailable, QueueUnavailable
from settlement.core.store.wire import to_wire
from settlement.events import ordered_topic as _ordered_topic
from settlement.events import outcome_bus as _outcome_bus
from tests.handlers.conftest import Calls
from tests.world.constants import CLAIMED_AT, KEY, WIRE
from tests.world.environment import NOW
from tests.world.expressions import Item
from tests.world.functions import FORWARD, Context
from tests.world.services import Bus, OrderedTopic, Queues
from tests.world.stream import record

AT = NOW.timestamp()
ENTRY = keys.entry("merchant.shop", CLAIMED_AT, KEY, "release")
REASON = {"step": {"S": "hold"}, "error": {"S": "x"}}
TYPES = ["held", "verified", "released", "settled"]


@pytest.fixture
def images(calls: Calls) -> list[Item | None]:
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("bob", 0)
    found: list[Item | None] = [None]
    for state in FORWARD:
        calls(state, WIRE, claimed_at=CLAIMED_AT)
        found.append(to_wire(calls.row()))
    return found


@pytest.fixture
def records(images: list[Item | None]) -> list[dict[str, Any]]:
    return [record(old, new, at=AT) for old, new in pairwise(images)]


def publish(*records: dict[str, Any]) -> None:
    assert publish_events.handler({"Records": list(records)}, Context()) is None


def replay(*wanted: str) -> Any:
    return publish_events.handler({"replay": list(wanted)}, Context())


def release() -> dict[str, Any]:
    return record(None, to_wire({**ENTRY, "step": "release"}), at=AT)


def told(bus: Bus) -> list[str]:
    return [event["type"].removeprefix("settlement.") for event in bus.taken]


def test_a_happy_payment_is_four_events_with_its_outcome(
    records: list[dict[str, Any]], bus: Bus, calls: Calls
) -> None:
    calls.counted()

    publish(*records)

    assert told(bus) == TYPES
    assert [event["id"] for event in bus.taken] == [f"{KEY}:{number}" for number in (1, 2, 3, 4)]
    data = bus.taken[-1].pop("data")
    assert (data["status"], data["steps"]) == ("SETTLED", ["hold", "verify", "release", "fee"])
    assert bus.taken[-1] == {
        "specversion": "1.0",
        "id": f"{KEY}:4",
        "source": "settlement-under-test",
        "type": "settlement.settled",
        "subject": KEY,
        "time": "2026-11-20T12:00:00.123Z",
        "datacontenttype": "application/json",
        "sequence": "4",
        "sequencetype": "Integer",
    }
    assert calls.counted() == {"StepCalled": 1, "EventsPublished": 4}


def test_a_change_that_is_no_event_is_not_told(images: list[Item | None], bus: Bus) -> None:
    row = images[1]
    assert row

    publish(record(row, {**row, "owner": {"S": "recovery"}}, at=AT))

    assert not bus.calls


def test_events_are_put_in_tens_and_in_their_order(records: list[dict[str, Any]], bus: Bus) -> None:
    publish(*records * 6)

    assert bus.calls == [10, 10, 4]
    assert told(bus) == TYPES * 6


@pytest.mark.parametrize("code", ["ThrottlingException", "InternalFailure", "AccessDeniedException", "New"])
def test_an_event_refused_for_now_brings_its_batch_again(
    records: list[dict[str, Any]], bus: Bus, queues: Queues, code: str
) -> None:
    bus.refuses = lambda event: code if event["sequence"] == "3" else ""

    with pytest.raises(EventsUnavailable, match=code):
        publish(*records)
    bus.refuses = lambda event: ""
    publish(*records)

    assert [event["sequence"] for event in bus.taken] == [*"124", *"1234"]
    assert not queues.sent


@pytest.mark.parametrize(
    "failing",
    [
        ReadTimeoutError(endpoint_url="https://events.invalid"),
        ClientError({"Error": {"Code": "ThrottlingException"}}, "PutEvents"),
    ],
)
def test_a_bus_without_an_answer_brings_the_batch_again(
    records: list[dict[str, Any]], bus: Bus, failing: Exception
) -> None:
    bus.failing = failing

    with pytest.raises(EventsUnavailable, match=type(failing).__name__):
        publish(*records)


@pytest.mark.parametrize("code", _outcome_bus._NEVER_TAKEN)
def test_an_event_refused_for_good_is_put_aside_alone(
    records: list[dict[str, Any]], bus: Bus, queues: Queues, code: str
) -> None:
    bus.refuses = lambda event: code if event["sequence"] == "2" else ""

    publish(*records)

    assert [event["sequence"] for event in bus.taken] == [*"134"]
    assert aside(queues) == [{"key": KEY, "reason": code}]


def test_an_event_that_is_too_large_is_put_aside(
    records: list[dict[str, Any]], bus: Bus, queues: Queues
) -> None:
    """No function writes such a row; a call with nine others would be refused as a whole."""
    large = {"M": {"step": {"S": "hold"}, "error": {"S": "x"}, "cause": {"S": "x" * 30_000}}}
    for image in ("OldImage", "NewImage"):
        records[1]["dynamodb"][image]["failure"] = large

    publish(*records)

    assert [event["sequence"] for event in bus.taken] == [*"134"]
    assert aside(queues) == [{"key": KEY, "reason": "it has more than 24000 bytes"}]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"status": {"S": "PAID"}}, "'PAID' is not a valid Status"),
        ({"sequence": {"N": "7"}}, "makes verified, but its sequence grows by 6"),
        ({"amount": {"N": "0.5"}}, "a row holds 0.5, but every number in the table is an integer"),
        ({"currency": {"S": "XXX"}}, "the stage has no currency XXX"),
        ({"layout": {"N": "99"}}, "has layout 99"),
        (None, "the settlement's row was deleted"),
        ({"failure": {"M": {**REASON, "cause": {"B": b"x"}}}}, "failure has a member that is no str"),
        ({"failure": {"M": {**REASON, "cause": {"SS": ["x"]}}}}, "failure has a member that is no str"),
    ],
)
def test_a_change_that_no_function_makes_is_put_aside_alone(
    images: list[Item | None],
    records: list[dict[str, Any]],
    bus: Bus,
    queues: Queues,
    changed: Item | None,
    reason: str,
) -> None:
    old, new = images[1:3]
    assert new
    records[1] = record(old, None if changed is None else {**new, **changed}, at=AT)

    publish(*records)

    assert [event["sequence"] for event in bus.taken] == [*"134"]
    (message,) = aside(queues)
    assert message["key"] == KEY
    assert reason in message["reason"]


def test_a_row_with_an_impossible_key_is_put_aside_alone(
    images: list[Item | None], records: list[dict[str, Any]], bus: Bus, queues: Queues
) -> None:
    bad: Item = {"pk": {"S": "SETTLEMENT#not a key"}}
    old, new = ({**image, **bad} for image in images[1:3] if image)
    records[1] = record(old, new, at=AT)

    publish(*records)

    assert [event["sequence"] for event in bus.taken] == [*"134"]
    assert aside(queues) == [
        {"key": "not a key", "reason": "SETTLEMENT#not a key: no request has such a key"}
    ]


def test_a_reason_that_repeats_the_row_is_cut(
    images: list[Item | None], records: list[dict[str, Any]], bus: Bus, queues: Queues
) -> None:
    """A row has up to 400 KB, each byte up to six in JSON: more than a queue takes."""
    old, new = images[1:3]
    assert new
    records[1] = record(old, {**new, "status": {"S": "x" * 5_000}}, at=AT)

    publish(*records)

    (message,) = aside(queues)
    assert len(message["reason"]) == publish_events.REASON_LENGTH_MAX


def test_releases_to_merchants_go_to_their_sweep(
    records: list[dict[str, Any]], bus: Bus, queues: Queues
) -> None:
    publish(records[2], release(), release())

    assert queues.to == [os.environ["SWEEPS"]]
    assert json.loads(queues.sent[0]["body"]) == [[ENTRY["pk"], ENTRY["sk"]]] * 2
    assert told(bus) == ["released"]


def test_a_bus_that_is_down_keeps_no_merchant_waiting(
    records: list[dict[str, Any]], bus: Bus, queues: Queues
) -> None:
    bus.failing = ReadTimeoutError(endpoint_url="https://events.invalid")

    with pytest.raises(EventsUnavailable):
        publish(*records, release())

    assert queues.to == [os.environ["SWEEPS"]]


def test_a_queue_that_is_down_keeps_no_reader_waiting(
    records: list[dict[str, Any]], bus: Bus, queues: Queues
) -> None:
    queues.failure = ReadTimeoutError(endpoint_url="https://sqs.invalid")

    with pytest.raises(QueueUnavailable, match=r"^SWEEPS: "):
        publish(*records, release())

    assert told(bus) == TYPES


def test_a_replay_tells_of_a_settlement_as_it_is(images: list[Item | None], bus: Bus) -> None:
    assert replay(KEY) == {"told": [KEY], "untold": {}}

    (event,) = bus.taken
    assert (event["type"], event["id"], event["replayed"]) == ("settlement.snapshot", f"{KEY}:4", True)
    assert event["data"]["status"] == "SETTLED"


def test_a_replay_says_which_settlements_it_has_not_told(
    images: list[Item | None], bus: Bus, calls: Calls
) -> None:
    calls.alter(sequence=0)
    unknown = "order-2026-999999"

    answer = replay(KEY, unknown)

    assert answer == {
        "told": [],
        "untold": {
            KEY: f"SETTLEMENT#{KEY}: has no attribute 'sequence'",
            unknown: "there is no such settlement",
        },
    }
    assert not bus.calls


def test_a_replay_that_the_bus_refuses_says_so(images: list[Item | None], bus: Bus) -> None:
    bus.refuses = lambda event: "MalformedDetail"

    assert replay(KEY) == {"told": [], "untold": {KEY: "MalformedDetail"}}


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> OrderedTopic:
    topic = OrderedTopic()
    monkeypatch.setattr(_ordered_topic, "_client", topic)
    monkeypatch.setenv("ORDERED_TOPIC", "arn:aws:sns:eu-west-1:123456789012:ordered.fifo")
    return topic


def test_the_topic_gets_each_event_once_and_in_order(
    records: list[dict[str, Any]], bus: Bus, topic: OrderedTopic
) -> None:
    publish(*records)
    publish(*records)

    assert topic.taken == bus.taken[:4]


def test_the_topic_gets_nothing_that_the_bus_never_takes(
    records: list[dict[str, Any]], bus: Bus, topic: OrderedTopic, queues: Queues
) -> None:
    bus.refuses = lambda event: "MalformedDetail" if event["sequence"] == "2" else ""

    publish(*records)

    assert [event["sequence"] for event in topic.taken] == [*"134"]
    assert aside(queues) == [{"key": KEY, "reason": "MalformedDetail"}]


def test_no_event_overtakes_one_that_the_topic_has_not_taken(
    records: list[dict[str, Any]], bus: Bus, topic: OrderedTopic
) -> None:
    down = ReadTimeoutError(endpoint_url="https://sns.invalid")
    topic.failing = lambda event: down if event["sequence"] == "2" else None
    with pytest.raises(EventsUnavailable, match="ReadTimeoutError"):
        publish(*records)
    assert [event["sequence"] for event in topic.taken] == ["1"]

    topic.failing = lambda event: None
    publish(*records)

    assert [event["sequence"] for event in topic.taken] == [*"1234"]


def test_the_topic_does_not_drop_a_replay_as_known(
    records: list[dict[str, Any]], bus: Bus, topic: OrderedTopic
) -> None:
    publish(*records)

    replay(KEY)

    assert topic.taken[-1]["type"] == "settlement.snapshot"


def aside(queues: Queues) -> list[Any]:
    assert {*queues.to} == {os.environ["EVENTS_PUT_ASIDE"]}
    return [json.loads(message["body"]) for message in queues.sent]
