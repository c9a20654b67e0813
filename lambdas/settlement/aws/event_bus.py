"""Puts events of orders on the stage's bus, before the orders are carried out."""

import json
import os
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from settlement.aws.clients import LazyClient
from settlement.core.model.errors import PageUnavailable

_client = LazyClient(
    "events", Config(connect_timeout=1, read_timeout=2, retries={"mode": "standard", "total_max_attempts": 2})
)


def put(event: str, detail: dict[str, Any]) -> None:
    """Put an event on the bus. Raises PageUnavailable without its confirmation."""
    entry = {
        "Source": "settlement",
        "DetailType": event,
        "Detail": json.dumps(detail),
        "EventBusName": os.environ["EVENT_BUS"],
    }
    try:
        failed = _client.put_events(Entries=[entry])["FailedEntryCount"]
    except (ClientError, BotoCoreError) as error:
        raise PageUnavailable(f"page: not sent: {type(error).__name__}; nothing was ordered") from None
    if failed:
        raise PageUnavailable("page: not taken by the event bus; nothing was ordered")
