"""Publish changes of settlements and payouts from the table's stream on the outcome bus."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from handlers import _dependencies, rooms
from settlement.aws import queues
from settlement.core.model.timestamps import timestamp
from settlement.core.store.wire import from_wire
from settlement.core.telemetry import gauge, logger, observed
from settlement.events import changes as events
from settlement.events import ordered_topic, outcome_bus

_SETTLEMENT = "SETTLEMENT#"
REASON_LENGTH_MAX = 1_000
"""Maximum characters of a reason, which may repeat a row's value. SQS takes 1 MiB."""

Record = Mapping[str, Any]


@observed("publish")
def handler(event: dict[str, Any], context: object) -> dict[str, Any] | None:
    """Relay a batch of the stream. A call by TakeOrder publishes settlements as they are now.

    If a service takes only part of a batch, the whole batch comes again. Consumers then get events twice.
    This function also relays merchants' releases, because a third consumer would slow the stream. They go
    first, because the merchants' money waits.
    """
    if "replay" in event:
        return _replay(event["replay"])
    records: Sequence[Record] = event["Records"]
    making = [(record, _maker(record)) for record in records]
    try:
        _pass_on([record for record, maker in making if maker is None])
    finally:
        _relay([(record, maker) for record, maker in making if maker])
    return None


def _maker(record: Record) -> rooms.MakeEvent | None:
    """The function that makes the record's event. None: the record is a merchant's release."""
    pk = record["dynamodb"]["Keys"]["pk"]["S"]
    return events.event if pk.startswith(_SETTLEMENT) else rooms.event_of(pk)


def _pass_on(releases: Sequence[Record]) -> None:
    if releases:
        keys = [record["dynamodb"]["Keys"] for record in releases]
        queues.send("SWEEPS", json.dumps([[key["pk"]["S"], key["sk"]["S"]] for key in keys]))


def _relay(making: Iterable[tuple[Record, rooms.MakeEvent]]) -> None:
    told, untold, keys = [], list[tuple[str, str]](), dict[str, str]()
    for record, maker in making:
        change = record["dynamodb"]
        at = datetime.fromtimestamp(change["ApproximateCreationDateTime"], UTC)
        try:
            found = maker(_image(change, "OldImage"), _image(change, "NewImage"), _dependencies.config)
            if found:
                made = events.cloud_event(found, source=outcome_bus.SOURCE, time=timestamp(at))
                json.dumps(made)
                told.append(made)
                keys[made["id"]] = _key(record)
        except (ValueError, TypeError) as wrong:  # a MalformedRow, or types that no function writes
            untold.append((_key(record), str(wrong)))
    untold += [(keys[one.event["id"]], one.reason) for one in _publish(told)]
    gauge("EventsPublished", len(told))
    for key, reason in untold:
        logger.warning("event put aside", key=key)
        aside = {"key": key, "reason": reason[:REASON_LENGTH_MAX]}
        queues.send("EVENTS_PUT_ASIDE", json.dumps(aside))


def _publish(told: Sequence[dict[str, Any]]) -> list[outcome_bus.Refused]:
    """Publish events. Return those that the bus never accepts.

    Raises EventsUnavailable. The ordered topic never gets these events, which might block others.
    """
    refused = outcome_bus.publish(told)
    never_taken = [one.event for one in refused]
    ordered_topic.publish([one for one in told if one not in never_taken])
    return refused


def _replay(keys: Iterable[str]) -> dict[str, Any]:
    told, untold = [], dict[str, str]()
    for key in keys:
        try:
            told.append(_snapshot(key))
        except ValueError as wrong:
            untold[key] = str(wrong)
    untold |= {one.event["subject"]: one.reason for one in _publish(told)}
    return {"told": [one["subject"] for one in told if one["subject"] not in untold], "untold": untold}


def _snapshot(key: str) -> dict[str, Any]:
    state = _dependencies.store.settlement(key)
    if state is None:
        raise ValueError("there is no such settlement")
    at = timestamp(_dependencies.now())
    return events.snapshot(state, _dependencies.config, source=outcome_bus.SOURCE, time=at)


def _image(change: Record, name: str) -> dict[str, Any] | None:
    return from_wire(change[name]) if name in change else None


def _key(record: Record) -> str:
    key: str = record["dynamodb"]["Keys"]["pk"]["S"]
    return key.removeprefix(_SETTLEMENT)
