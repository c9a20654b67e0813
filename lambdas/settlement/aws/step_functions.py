import json
import os
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from settlement.aws.clients import LazyClient
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import StartUnavailable

_THROTTLED = frozenset({"ThrottlingException", "ExecutionLimitExceeded"})
"""Errors of a quota: the call had no effect."""

_GONE = frozenset({"InvalidToken", "TaskDoesNotExist", "TaskTimedOut"})
"""Errors that mean: no execution waits with this token any more."""

_client = LazyClient(
    "stepfunctions", Config(connect_timeout=1, read_timeout=3, retries={"total_max_attempts": 1})
)


def arn(variable: str) -> str:
    return os.environ[variable]


def execution_arn(machine_arn: str, name: str) -> str:
    return f"{machine_arn.replace(':stateMachine:', ':execution:')}:{name}"


def is_running(execution: str) -> bool:
    """Whether a Standard execution runs. Raises StartUnavailable."""
    try:
        answer = _client.describe_execution(executionArn=execution)
    except _client.exceptions.ExecutionDoesNotExist:
        return False
    except (ClientError, BotoCoreError) as error:
        raise _unavailable(f"{execution}: not described", error) from None
    return bool(answer["status"] == "RUNNING")


def wake(waiting: Row | None, output: dict[str, Any]) -> bool:
    """Wake an execution. Return False if it no longer waits. Raises StartUnavailable."""
    if waiting is None:
        return False
    try:
        if not is_running(waiting["execution"]):
            return False
        _client.send_task_success(taskToken=waiting["token"], output=json.dumps(output))
    except ClientError as error:
        if error.response["Error"]["Code"] in _GONE:
            return False
        raise _unavailable(f"{waiting['key']}: not woken", error) from None
    except BotoCoreError as error:
        raise _unavailable(f"{waiting['key']}: not woken", error) from None
    return True


def start(machine_arn: str, name: str, data: dict[str, Any], trace: str | None = None) -> None:
    """Start an execution. Raises StartUnavailable. `trace` is an X-Ray header.

    A repeat of the name starts a second Express execution. Standard accepts a repeat with the same input
    while the first execution runs.
    """
    traced = {"traceHeader": trace} if trace else {}
    try:
        _client.start_execution(stateMachineArn=machine_arn, name=name, input=json.dumps(data), **traced)
    except _client.exceptions.ExecutionAlreadyExists:
        raise StartUnavailable(f"{name}: not started: its name is taken") from None
    except (ClientError, BotoCoreError) as error:
        raise _unavailable(f"{name}: not started", error) from None


def _unavailable(message: str, error: ClientError | BotoCoreError) -> StartUnavailable:
    is_throttled = isinstance(error, ClientError) and error.response["Error"]["Code"] in _THROTTLED
    return StartUnavailable(f"{message}: {type(error).__name__}", is_throttled=is_throttled)
