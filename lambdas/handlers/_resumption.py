"""A request to RecoverStalled to resume one settlement now, and not at its next look.

The webhook sends it and does not wait. A request that is lost delays the settlement until the schedule finds
it due, and one that comes twice, or late, finds another owner and does nothing.
"""

import json
import os
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from handlers import _dependencies
from settlement.model.errors import StartUnavailable

_client = _dependencies.LazyClient(
    "lambda", Config(connect_timeout=1, read_timeout=3, retries={"total_max_attempts": 1})
)


def ask(key: str, owner: str) -> None:
    """Ask for a settlement to be resumed, as long as `owner` is its owner. Raises StartUnavailable."""
    try:
        _client.invoke(
            FunctionName=os.environ["RECOVER_STALLED"],
            InvocationType="Event",
            Payload=json.dumps({"key": key, "owner": owner}),
        )
    except (ClientError, BotoCoreError) as error:
        raise StartUnavailable(f"{key}: not resumed yet: {type(error).__name__}") from None


def wait_for(key: str) -> dict[str, Any]:
    """Resume a settlement whose owner does not run; return recovery's answer. Raises StartUnavailable."""
    try:
        answer = _client.invoke(
            FunctionName=os.environ["RECOVER_STALLED"],
            InvocationType="RequestResponse",
            Payload=json.dumps({"key": key}),
        )
    except (ClientError, BotoCoreError) as error:
        raise StartUnavailable(f"{key}: not resumed yet: {type(error).__name__}") from None
    content: dict[str, Any] = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        raise StartUnavailable(f"{key}: not resumed yet: {content.get('errorType')}")
    return content
