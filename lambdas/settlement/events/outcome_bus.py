"""The bus that carries the events of settlements to those who wait for an outcome."""

import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from settlement.aws.clients import LazyClient
from settlement.core.model.errors import EventsUnavailable

SOURCE = os.environ["POWERTOOLS_SERVICE_NAME"]
"""The stack, as the source of its events."""

BATCH_MAX = 10
"""Most events that EventBridge takes at once."""

EVENT_BYTES_MAX = 24_000
"""Ten of them are below 256 kB. An outcome has some 500 bytes; only a row changed by hand can have more."""

_NEVER_TAKEN = ("InvalidArgument", "MalformedDetail")
"""EventBridge's errors that are the event's own. Each other one ends, or a person ends it."""

_client = LazyClient(
    "events", Config(connect_timeout=1, read_timeout=3, retries={"mode": "standard", "total_max_attempts": 2})
)


class Refused(NamedTuple):
    """An event that the bus will never take, and why."""

    event: dict[str, Any]
    reason: str


def publish(events: Sequence[dict[str, Any]]) -> list[Refused]:
    """Put events on the bus, in their order; return those that it will never take.

    Raises EventsUnavailable for the first one that it has not taken: those before it it has.
    """
    texts = {position: json.dumps(one) for position, one in enumerate(events)}
    large = [position for position, text in texts.items() if len(text) > EVENT_BYTES_MAX]
    refused = [Refused(events[one], f"it has more than {EVENT_BYTES_MAX} bytes") for one in large]
    fitting = [position for position in texts if position not in large]
    for first in range(0, len(fitting), BATCH_MAX):
        batch = fitting[first : first + BATCH_MAX]
        entries = [_entry(events[position]["type"], texts[position]) for position in batch]
        told = zip(batch, _put(entries), strict=True)
        refused += [Refused(events[position], reason) for position, reason in told if reason]
    return refused


def _put(entries: list[dict[str, str]]) -> list[str]:
    """Put entries; return for each of them why it will never be taken, or an empty text."""
    try:
        answers = _client.put_events(Entries=entries)["Entries"]
    except (ClientError, BotoCoreError) as error:
        raise EventsUnavailable(f"events: not put: {type(error).__name__}") from None
    reasons = [answer.get("ErrorCode", "") for answer in answers]
    for reason in reasons:
        if reason and reason not in _NEVER_TAKEN:
            raise EventsUnavailable(f"events: not taken: {reason}")
    return reasons


def _entry(kind: str, detail: str) -> dict[str, str]:
    return {
        "Source": "settlement",
        "DetailType": kind,
        "Detail": detail,
        "EventBusName": os.environ["OUTCOME_BUS"],
    }
