"""An optional topic. It keeps each settlement's events in order."""

import json
import os
from collections.abc import Sequence
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from settlement.aws.clients import LazyClient
from settlement.core.model.errors import EventsUnavailable

_client = LazyClient(
    "sns", Config(connect_timeout=1, read_timeout=3, retries={"mode": "standard", "total_max_attempts": 2})
)


def publish(events: Sequence[dict[str, Any]]) -> None:
    """Publish events, if the stage has the topic. Raises EventsUnavailable at the first failure.

    Each event has its own call: SNS may accept only part of a batch, and so break the order. The topic
    drops repeats for five minutes; later repeats reach the consumers.
    """
    topic = os.environ.get("ORDERED_TOPIC")
    for event in events if topic else ():
        try:
            _client.publish(TopicArn=topic, **_message(event))
        except (ClientError, BotoCoreError) as error:
            raise EventsUnavailable(f"events: not published: {type(error).__name__}") from None


def _message(event: dict[str, Any]) -> dict[str, Any]:
    filtered = {"type": event["type"], "status": event["data"]["status"]}
    return {
        "Message": json.dumps(event),
        "MessageGroupId": event["id"].removesuffix(f":{event['sequence']}"),
        # Within five minutes, the topic would drop a replay that has its event's id.
        "MessageDeduplicationId": f"{event['id']}:{event['time']}" if "replayed" in event else event["id"],
        "MessageAttributes": {
            name: {"DataType": "String", "StringValue": text} for name, text in filtered.items()
        },
    }
