"""PublishEvents publishes payout events from their rows' stream records."""

import json
import os
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from handlers.events import publish_events
from settlement.core.model.errors import EventsUnavailable
from settlement.core.store.wire import to_wire
from settlement.events import ordered_topic, outcome_bus
from settlement.payouts.payout import Word
from settlement.payouts.port import Found
from tests.handlers.payouts.conftest import ADA, BEA, HOLDER, IBAN, KEY, Desk
from tests.world.environment import NOW
from tests.world.functions import Context
from tests.world.services import Bus, OrderedTopic
from tests.world.stream import record

AT = NOW.timestamp()
Records = list[dict[str, Any]]


def lived(desk: Desk, *steps: Callable[[], object]) -> Records:
    images: list[Any] = [None]
    for step in steps:
        step()
        images.append(to_wire(desk.row()))
    return [record(old, new, at=AT) for old, new in pairwise(images)]


def accepted(desk: Desk) -> Records:
    """A payout's records: reserved; sending and accepted, both by one look; paid later."""

    def paid() -> None:
        desk.bank.found = Found(Word.PAID)
        desk.calls.later(days=1)
        desk.look()

    first, second, third = lived(desk, desk.reserve, desk.look, paid)
    sending = {**second["dynamodb"]["NewImage"], "status": {"S": "SENDING"}, "sequence": {"N": "2"}}
    between = [(second["dynamodb"]["OldImage"], sending), (sending, second["dynamodb"]["NewImage"])]
    return [first, *(record(old, new, at=AT) for old, new in between), third]


def publish(records: Records) -> None:
    assert publish_events.handler({"Records": records}, Context()) is None


def test_a_paid_payout_publishes_one_event_for_each_move(desk: Desk, bus: Bus) -> None:
    publish(accepted(desk))

    assert [one["type"] for one in bus.taken] == [
        *("payout.reserved", "payout.sending", "payout.accepted", "payout.paid"),
    ]
    assert [one["id"] for one in bus.taken] == [f"payout:{KEY}:{number}" for number in (1, 2, 3, 4)]
    assert bus.taken[-1]["data"]["amount"] == "48.20"


def test_a_decided_case_names_no_person_and_no_bank_account(desk: Desk, bus: Bus) -> None:
    desk.case()
    before = to_wire(desk.row())
    desk.decided()

    publish([record(before, to_wire(desk.row()), at=AT)])

    (told,) = bus.taken
    assert told["type"] == "payout.refused"
    assert not [one for one in (ADA, BEA, IBAN, HOLDER) if one in json.dumps(told)]


def test_bringing_a_look_forward_publishes_no_event(desk: Desk, bus: Bus) -> None:
    desk.reserve()
    before = to_wire(desk.row())

    publish([record(before, {**before, "gsi1sk": {"S": "2026-11-20T12:00:01.000Z"}}, at=AT)])

    assert not bus.calls


@pytest.mark.parametrize(
    "spoilt", [{"amount": {"N": "1.5"}}, {"holder": {"L": []}}, {"sequence": {"N": "9"}}]
)
def test_only_a_malformed_record_is_put_aside(desk: Desk, bus: Bus, spoilt: dict[str, Any]) -> None:
    records = accepted(desk)
    records[1]["dynamodb"]["NewImage"] |= spoilt

    publish(records[:2] + records[3:])

    assert [one["sequence"] for one in bus.taken] == ["1", "4"]
    assert {*desk.calls.queues.to} == {os.environ["EVENTS_PUT_ASIDE"]}
    (aside,) = (json.loads(message["body"]) for message in desk.calls.queues.sent)
    assert aside["key"] == f"PAYOUT#{KEY}"


def test_an_event_that_the_bus_never_takes_is_put_aside(desk: Desk, bus: Bus) -> None:
    bus.refuses = lambda event: "MalformedDetail"

    publish(lived(desk, desk.reserve))

    (aside,) = (json.loads(message["body"]) for message in desk.calls.queues.sent)
    assert aside == {"key": f"PAYOUT#{KEY}", "reason": "MalformedDetail"}


def test_a_batch_is_redelivered_if_the_bus_gives_no_answer(desk: Desk, bus: Bus) -> None:
    bus.failing = ReadTimeoutError(endpoint_url="https://events.invalid")

    with pytest.raises(EventsUnavailable):
        publish(lived(desk, desk.reserve))


def test_the_ordered_topic_gets_the_same_payout_events(
    desk: Desk, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = OrderedTopic()
    monkeypatch.setattr(ordered_topic, "_client", topic)
    monkeypatch.setenv("ORDERED_TOPIC", "arn:aws:sns:eu-west-1:123456789012:ordered.fifo")

    publish(accepted(desk))

    assert topic.taken == bus.taken
    assert topic.taken[0]["source"] == outcome_bus.SOURCE
