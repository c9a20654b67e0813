import json
import os
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from settlement.aws.clients import LazyClient
from settlement.core.model.errors import StartUnavailable

_client = LazyClient("lambda", Config(connect_timeout=1, read_timeout=5, retries={"total_max_attempts": 1}))


def send(function: str, event: dict[str, Any]) -> None:
    """Invoke a function without waiting. `function` is the environment variable with its name.

    Raises StartUnavailable. AWS may have accepted the event nevertheless.
    """
    try:
        _client.invoke(FunctionName=os.environ[function], InvocationType="Event", Payload=json.dumps(event))
    except (ClientError, BotoCoreError) as error:
        raise StartUnavailable(type(error).__name__) from None


def call(function: str, event: dict[str, Any]) -> dict[str, Any]:
    """Call a function, and return its answer. Raises StartUnavailable."""
    try:
        answer = _client.invoke(
            FunctionName=os.environ[function], InvocationType="RequestResponse", Payload=json.dumps(event)
        )
        payload = answer["Payload"].read()
    except (ClientError, BotoCoreError) as error:
        raise StartUnavailable(type(error).__name__) from None
    content: dict[str, Any] = json.loads(payload)
    if "FunctionError" in answer:
        raise StartUnavailable(str(content.get("errorType")))
    return content
