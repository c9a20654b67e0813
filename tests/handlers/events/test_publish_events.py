import json
import os
from dataclasses import dataclass, field
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
from tests.world.constants import CLAIMED_AT, KEY
from tests.world.environment import NOW
from tests.world.expressions import Item
from tests.world.functions import FORWARD, Context
from tests.world.services import Bus, OrderedTopic, Queues
from tests.world.stream import record

AT = NOW.timestamp()
ENTRY = keys.entry("merchant.shop", CLAIMED_AT, KEY, "release")
TYPES = ["held", "verified", "released", "settled"]


def because(cause: Any) -> Any:
    return {"M": {"step": {"S": "hold"}, "error": {"S": "x"}, "cause": cause}}


@dataclass
class Stream:
    """The stream's records of a happy payment, and where its events go."""

    calls: Calls
    bus: Bus
    topic: OrderedTopic
    images: list[Item]
    """The settlement's row after each step."""

    records: list[dict[str, Any]] = field(default_factory=list)

    @property
    def queues(self) -> Queues:
        return self.calls.queues

    @property
    def told(self) -> list[str]:
        return [event["type"].removeprefix("settlement.") for event in self.bus.taken]

    @property
    def taken(self) -> list[str]:
        return [event["sequence"] for event in self.bus.taken]

    @property
    def aside(self) -> list[Any]:
        assert {*self.queues.to} == {os.environ["EVENTS_PUT_ASIDE"]}
        return [json.loads(message["body"]) for message in self.queues.sent]


@pytest.fixture
def stream(calls: Calls, bus: Bus) -> Stream:
    calls.before("HoldFunds")
    made = Stream(calls, bus, OrderedTopic(), [])
    for state in FORWARD:
        calls.run(state)
        made.images.append(to_wire(calls.row()))
    made.records = [record(old, new, at=AT) for old, new in pairwise([None, *made.images])]
    return made


@pytest.fixture
def ordered(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> Stream:
    monkeypatch.setattr(_ordered_topic, "_client", stream.topic)
    monkeypatch.setenv("ORDERED_TOPIC", "arn:aws:sns:eu-west-1:123456789012:ordered.fifo")
    return stream


def publish(*records: dict[str, Any]) -> None:
    assert publish_events.handler({"Records": list(records)}, Context()) is None


def replay(*wanted: str) -> Any:
    return publish_events.handler({"replay": list(wanted)}, Context())


def release() -> dict[str, Any]:
    return record(None, to_wire({**ENTRY, "step": "release"}), at=AT)


def test_a_settled_payment_publishes_four_events_and_its_outcome(stream: Stream) -> None:
    stream.calls.counted()

    publish(*stream.records)

    assert stream.told == TYPES
    assert [event["id"] for event in stream.bus.taken] == [f"{KEY}:{number}" for number in (1, 2, 3, 4)]
    data = stream.bus.taken[-1].pop("data")
    assert (data["status"], data["steps"]) == ("SETTLED", ["hold", "verify", "release", "fee"])
    assert stream.bus.taken[-1] == {
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
    assert stream.calls.counted() == {"StepCalled": 1, "EventsPublished": 4}


def test_a_change_without_an_event_publishes_nothing(stream: Stream) -> None:
    row = stream.images[0]

    publish(record(row, {**row, "owner": {"S": "recovery"}}, at=AT))

    assert not stream.bus.calls


def test_events_are_published_in_batches_of_ten_in_order(stream: Stream) -> None:
    publish(*stream.records * 6)

    assert stream.bus.calls == [10, 10, 4]
    assert stream.told == TYPES * 6


@pytest.mark.parametrize("code", ["ThrottlingException", "InternalFailure", "AccessDeniedException", "New"])
def test_a_temporarily_refused_event_causes_redelivery_of_its_batch(stream: Stream, code: str) -> None:
    stream.bus.refuses = lambda event: code if event["sequence"] == "3" else ""

    with pytest.raises(EventsUnavailable, match=code):
        publish(*stream.records)
    stream.bus.refuses = lambda event: ""
    publish(*stream.records)

    assert stream.taken == [*"124", *"1234"]
    assert not stream.queues.sent


@pytest.mark.parametrize(
    "failing",
    [
        ReadTimeoutError(endpoint_url="https://events.invalid"),
        ClientError({"Error": {"Code": "ThrottlingException"}}, "PutEvents"),
    ],
)
def test_a_batch_is_redelivered_if_the_bus_gives_no_answer(stream: Stream, failing: Exception) -> None:
    stream.bus.failing = failing

    with pytest.raises(EventsUnavailable, match=type(failing).__name__):
        publish(*stream.records)


@pytest.mark.parametrize("code", _outcome_bus._NEVER_TAKEN)
def test_only_a_permanently_refused_event_is_put_aside(stream: Stream, code: str) -> None:
    stream.bus.refuses = lambda event: code if event["sequence"] == "2" else ""

    publish(*stream.records)

    assert stream.taken == [*"134"]
    assert stream.aside == [{"key": KEY, "reason": code}]


@pytest.mark.parametrize(
    ("both", "changed", "reason"),
    [
        ({}, {"sequence": {"N": "7"}}, "makes verified, but its sequence grows by 6"),
        ({}, {"amount": {"N": "0.5"}}, "a row holds 0.5, but every number in the table is an integer"),
        ({}, {"layout": {"N": "99"}}, "has layout 99"),
        ({}, None, "the settlement's row was deleted"),
        ({}, {"failure": because({"B": b"x"})}, "failure has a member that is no str"),
        ({}, {"failure": because({"SS": ["x"]})}, "failure has a member that is no str"),
        # A call with nine other events would be refused as a whole.
        ({"failure": because({"S": "x" * 30_000})}, {}, "it has more than 24000 bytes"),
    ],
)
def test_only_records_that_cannot_become_events_are_put_aside(
    stream: Stream, both: Item, changed: Item | None, reason: str
) -> None:
    old, new = stream.images[:2]
    changed = None if changed is None else {**new, **both, **changed}
    stream.records[1] = record({**old, **both}, changed, at=AT)

    publish(*stream.records)

    assert stream.taken == [*"134"]
    (message,) = stream.aside
    assert message["key"] == KEY
    assert reason in message["reason"]


def test_only_a_row_with_an_impossible_key_is_put_aside(stream: Stream) -> None:
    bad: Item = {"pk": {"S": "SETTLEMENT#not a key"}}
    old, new = ({**image, **bad} for image in stream.images[:2] if image)
    stream.records[1] = record(old, new, at=AT)

    publish(*stream.records)

    assert stream.taken == [*"134"]
    assert stream.aside == [{"key": "not a key", "reason": "SETTLEMENT#not a key: no request has such a key"}]


def test_the_reason_in_a_put_aside_message_is_truncated(stream: Stream) -> None:
    """The reason can repeat a 400 KB row, up to six times larger in JSON: too much for a queue."""
    old, new = stream.images[:2]
    stream.records[1] = record(old, {**new, "status": {"S": "x" * 5_000}}, at=AT)

    publish(*stream.records)

    (message,) = stream.aside
    assert len(message["reason"]) == publish_events.REASON_LENGTH_MAX


def test_releases_to_merchants_go_to_their_sweep(stream: Stream) -> None:
    publish(stream.records[2], release(), release())

    assert stream.queues.to == [os.environ["SWEEPS"]]
    assert json.loads(stream.queues.sent[0]["body"]) == [[ENTRY["pk"], ENTRY["sk"]]] * 2
    assert stream.told == ["released"]


def test_releases_reach_the_sweep_queue_although_the_bus_is_down(stream: Stream) -> None:
    stream.bus.failing = ReadTimeoutError(endpoint_url="https://events.invalid")

    with pytest.raises(EventsUnavailable):
        publish(*stream.records, release())

    assert stream.queues.to == [os.environ["SWEEPS"]]


def test_events_reach_the_bus_although_the_sweep_queue_is_down(stream: Stream) -> None:
    stream.queues.failure = ReadTimeoutError(endpoint_url="https://sqs.invalid")

    with pytest.raises(QueueUnavailable, match=r"^SWEEPS: "):
        publish(*stream.records, release())

    assert stream.told == TYPES


def test_a_replay_publishes_a_snapshot_of_the_settlement(stream: Stream) -> None:
    assert replay(KEY) == {"told": [KEY], "untold": {}}

    (event,) = stream.bus.taken
    assert (event["type"], event["id"], event["replayed"]) == ("settlement.snapshot", f"{KEY}:4", True)
    assert event["data"]["status"] == "SETTLED"


def test_a_replay_lists_the_settlements_that_it_could_not_publish(stream: Stream) -> None:
    stream.calls.alter(sequence=0)
    unknown = "order-2026-999999"

    answer = replay(KEY, unknown)

    assert answer == {
        "told": [],
        "untold": {
            KEY: f"SETTLEMENT#{KEY}: has no attribute 'sequence'",
            unknown: "there is no such settlement",
        },
    }
    assert not stream.bus.calls


def test_a_replay_lists_a_settlement_that_the_bus_refuses(stream: Stream) -> None:
    stream.bus.refuses = lambda event: "MalformedDetail"

    assert replay(KEY) == {"told": [], "untold": {KEY: "MalformedDetail"}}


def test_the_topic_gets_each_event_once_and_in_order(ordered: Stream) -> None:
    publish(*ordered.records)
    publish(*ordered.records)

    assert ordered.topic.taken == ordered.bus.taken[:4]


def test_an_event_refused_by_the_bus_never_reaches_the_topic(ordered: Stream) -> None:
    ordered.bus.refuses = lambda event: "MalformedDetail" if event["sequence"] == "2" else ""

    publish(*ordered.records)

    assert [event["sequence"] for event in ordered.topic.taken] == [*"134"]
    assert ordered.aside == [{"key": KEY, "reason": "MalformedDetail"}]


def test_the_topics_order_survives_a_failure_to_publish(ordered: Stream) -> None:
    down = ReadTimeoutError(endpoint_url="https://sns.invalid")
    ordered.topic.failing = lambda event: down if event["sequence"] == "2" else None
    with pytest.raises(EventsUnavailable, match="ReadTimeoutError"):
        publish(*ordered.records)
    assert [event["sequence"] for event in ordered.topic.taken] == ["1"]

    ordered.topic.failing = lambda event: None
    publish(*ordered.records)

    assert [event["sequence"] for event in ordered.topic.taken] == [*"1234"]


def test_the_topic_does_not_discard_a_replay_as_duplicate(ordered: Stream) -> None:
    publish(*ordered.records)

    replay(KEY)

    assert ordered.topic.taken[-1]["type"] == "settlement.snapshot"
