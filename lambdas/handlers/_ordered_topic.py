"""The topic that keeps the events of a settlement in their order, on a stage that has one."""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from handlers import _dependencies
from settlement.model.errors import EventsUnavailable

BATCH_MAX = 10
"""Most messages that SNS takes at once."""

_client = _dependencies.LazyClient(
    "sns", Config(connect_timeout=1, read_timeout=3, retries={"mode": "standard", "total_max_attempts": 2})
)


def publish(events: Sequence[dict[str, Any]]) -> None:
    """Publish events, if the stage has the topic. Raises EventsUnavailable for the first that is not taken.

    Nothing behind that one is published, so that no event overtakes one of its settlement. What comes again
    within five minutes is dropped by the topic; later it comes twice, and its reader drops it.
    """
    topic = os.environ.get("ORDERED_TOPIC")
    for batch in _batches(events) if topic else ():
        entries = [_entry(str(position), event) for position, event in enumerate(batch)]
        try:
            failed = _client.publish_batch(TopicArn=topic, PublishBatchRequestEntries=entries)["Failed"]
        except (ClientError, BotoCoreError) as error:
            raise EventsUnavailable(f"events: not published: {type(error).__name__}") from None
        if failed:
            raise EventsUnavailable(f"events: not published: {failed[0]['Code']}")


def _batches(events: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the events in their order, in batches with one of a settlement: SNS may take a batch in part."""
    batch: dict[str, dict[str, Any]] = {}
    for event in events:
        if len(batch) == BATCH_MAX or event["subject"] in batch:
            yield [*batch.values()]
            batch = {}
        batch[event["subject"]] = event
    if batch:
        yield [*batch.values()]


def _entry(name: str, event: dict[str, Any]) -> dict[str, Any]:
    texts = {"type": event["type"], "status": event["data"]["status"]}
    return {
        "Id": name,
        "Message": json.dumps(event),
        "MessageGroupId": event["subject"],
        # A replay is none of the same event: the topic would drop it within five minutes.
        "MessageDeduplicationId": f"{event['id']}:{event['time']}" if "replayed" in event else event["id"],
        "MessageAttributes": {
            name: {"DataType": "String", "StringValue": text} for name, text in texts.items()
        },
    }
