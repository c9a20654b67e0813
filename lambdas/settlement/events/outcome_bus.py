import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from settlement.aws.clients import LazyClient
from settlement.core.model.errors import EventsUnavailable

SOURCE = os.environ["POWERTOOLS_SERVICE_NAME"]
BATCH_MAX = 10
"""Maximum events per call, EventBridge's limit."""

EVENT_BYTES_MAX = 24_000
"""Maximum size of an event. Ten stay below 256 kB. An outcome has about 500 bytes."""

_NEVER_TAKEN = ("InvalidArgument", "MalformedDetail")
"""EventBridge's errors that the event itself causes. Any other error is temporary."""

_client = LazyClient(
    "events", Config(connect_timeout=1, read_timeout=3, retries={"mode": "standard", "total_max_attempts": 2})
)


class Refused(NamedTuple):
    event: dict[str, Any]
    reason: str


def publish(events: Sequence[dict[str, Any]]) -> list[Refused]:
    """Put events in order. Return the events that the bus never accepts.

    Raises EventsUnavailable for any other failure.
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
    """Put entries. Return for each why it is never accepted, or an empty text."""
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
        "Source": kind.partition(".")[0],  # so a rule for settlements passes nothing else
        "DetailType": kind,
        "Detail": detail,
        "EventBusName": os.environ["OUTCOME_BUS"],
    }
