"""Executions of the state machines: start one, and ask whether one runs."""

import json
import os
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from handlers import _dependencies
from settlement.model.errors import StartUnavailable

_THROTTLED = frozenset({"ThrottlingException", "ExecutionLimitExceeded"})
"""The codes of an account's quotas: the call has had no effect, and a later one may."""

_client = _dependencies.LazyClient(
    "stepfunctions", Config(connect_timeout=1, read_timeout=3, retries={"total_max_attempts": 1})
)


def arn(variable: str) -> str:
    """Return the machine that the deployment names in an environment variable."""
    return os.environ[variable]


def execution_arn(machine_arn: str, name: str) -> str:
    """Return the ARN of an execution of a Standard machine, by its name."""
    return f"{machine_arn.replace(':stateMachine:', ':execution:')}:{name}"


def is_running(execution: str) -> bool:
    """Return whether an execution of a Standard machine, by its ARN, runs. Raises StartUnavailable."""
    try:
        answer = _client.describe_execution(executionArn=execution)
    except _client.exceptions.ExecutionDoesNotExist:
        return False
    except (ClientError, BotoCoreError) as error:
        raise _unavailable(f"{execution}: not described", error) from None
    return bool(answer["status"] == "RUNNING")


def start(machine_arn: str, name: str, data: dict[str, Any]) -> None:
    """Start an execution. Raises StartUnavailable, also if its name is taken: by whom, is not known.

    Step Functions takes the same name and input for the same start while that execution runs.
    """
    try:
        _client.start_execution(stateMachineArn=machine_arn, name=name, input=json.dumps(data))
    except _client.exceptions.ExecutionAlreadyExists:
        raise StartUnavailable(f"{name}: not started: its name is taken", is_taken=True) from None
    except (ClientError, BotoCoreError) as error:
        raise _unavailable(f"{name}: not started", error) from None


def _unavailable(message: str, error: ClientError | BotoCoreError) -> StartUnavailable:
    is_throttled = isinstance(error, ClientError) and error.response["Error"]["Code"] in _THROTTLED
    return StartUnavailable(f"{message}: {type(error).__name__}", is_throttled=is_throttled)
