import json
import os
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from settlement.aws.clients import LazyClient
from settlement.core.model.errors import StartUnavailable

_client = LazyClient("lambda", Config(connect_timeout=1, read_timeout=5, retries={"total_max_attempts": 1}))


def send(function: str, event: dict[str, Any]) -> None:
    """Invoke the function that the environment variable `function` names, without waiting.

    Raises StartUnavailable; the event may have been accepted nevertheless.
    """
    try:
        _client.invoke(FunctionName=os.environ[function], InvocationType="Event", Payload=json.dumps(event))
    except (ClientError, BotoCoreError) as error:
        raise StartUnavailable(type(error).__name__) from None


def call(function: str, event: dict[str, Any]) -> dict[str, Any]:
    """The function's answer. Raises StartUnavailable."""
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
