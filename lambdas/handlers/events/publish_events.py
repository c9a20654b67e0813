"""PublishEvents: tell of each change of a settlement on the outcome bus, as the table's stream has it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from handlers import _dependencies
from settlement.aws import queues
from settlement.core.model.timestamps import timestamp
from settlement.core.store.wire import from_wire
from settlement.core.telemetry import gauge, logger, observed
from settlement.events import changes as events
from settlement.events import ordered_topic, outcome_bus

_SETTLEMENT = "SETTLEMENT#"
REASON_LENGTH_MAX = 1_000
"""Most characters of a reason, which may repeat a value of the row: SQS takes 1 MiB."""

Record = Mapping[str, Any]


@observed("publish")
def handler(event: dict[str, Any], context: object) -> dict[str, Any] | None:
    """Relay a batch of the stream; or, called by TakeOrder, tell of settlements as they are now.

    A batch of which one service has not taken a part comes again as a whole: a reader gets events twice.
    The stream's third reader would slow all of them, so that releases to merchants take their way here,
    too: to the queue of SweepMerchants, and before the events, as their money waits.
    """
    if "replay" in event:
        return _replay(event["replay"])
    records: Sequence[Record] = event["Records"]
    try:
        _pass_on([one for one in records if not _is_settlement(one)])
    finally:
        _relay([one for one in records if _is_settlement(one)])
    return None


def _pass_on(releases: Sequence[Record]) -> None:
    """Send the addresses of releases to merchants to their sweep. Raises QueueUnavailable."""
    if releases:
        keys = [record["dynamodb"]["Keys"] for record in releases]
        queues.send("SWEEPS", json.dumps([[key["pk"]["S"], key["sk"]["S"]] for key in keys]))


def _relay(records: Iterable[Record]) -> None:
    """Publish the events of settlements' rows, and put aside what can never be told, with the reason."""
    told, untold = [], list[tuple[str, str]]()
    for record in records:
        change = record["dynamodb"]
        at = datetime.fromtimestamp(change["ApproximateCreationDateTime"], UTC)
        try:
            found = events.event(_image(change, "OldImage"), _image(change, "NewImage"), _dependencies.config)
            if found:
                made = events.cloud_event(found, source=outcome_bus.SOURCE, time=timestamp(at))
                json.dumps(made)
                told.append(made)
        except (ValueError, TypeError) as wrong:  # a MalformedRow, or values of types that no function puts
            untold.append((_key(record), str(wrong)))
    untold += _publish(told)
    gauge("EventsPublished", len(told))
    for key, reason in untold:
        logger.warning("event put aside", key=key)
        aside = {"key": key, "reason": reason[:REASON_LENGTH_MAX]}
        queues.send("EVENTS_PUT_ASIDE", json.dumps(aside))


def _publish(told: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Publish events; return the key of each that is never taken, and why. Raises EventsUnavailable.

    What the bus never takes, the topic might never take either: it would hold up those behind it.
    """
    refused = outcome_bus.publish(told)
    never_taken = [one.event for one in refused]
    ordered_topic.publish([one for one in told if one not in never_taken])
    return [(one.event["subject"], one.reason) for one in refused]


def _replay(keys: Iterable[str]) -> dict[str, Any]:
    """Publish settlements as they are now; return the keys that were told, and why others were not.

    Raises StoreUnavailable, EventsUnavailable.
    """
    told, untold = [], dict[str, str]()
    for key in keys:
        try:
            told.append(_snapshot(key))
        except ValueError as wrong:
            untold[key] = str(wrong)
    untold |= _publish(told)
    return {"told": [one["subject"] for one in told if one["subject"] not in untold], "untold": untold}


def _snapshot(key: str) -> dict[str, Any]:
    """Return the event of a settlement as it is. Raises ValueError for none, or for a malformed row."""
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


def _is_settlement(record: Record) -> bool:
    return bool(record["dynamodb"]["Keys"]["pk"]["S"].startswith(_SETTLEMENT))
