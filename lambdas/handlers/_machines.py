"""How a function starts an execution of a state machine, and learns whether one runs."""

import json
import os
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from settlement.errors import StartUnavailable

_client = boto3.client(
    "stepfunctions", config=Config(connect_timeout=1, read_timeout=3, retries={"total_max_attempts": 1})
)


def arn(variable: str) -> str:
    """The machine that the deployment has named in an environment variable."""
    return os.environ[variable]


def execution_arn(machine_arn: str, name: str) -> str:
    """The execution of a Standard machine that has a name."""
    return f"{machine_arn.replace(':stateMachine:', ':execution:')}:{name}"


def is_running(execution: str) -> bool:
    """Whether an execution of a Standard machine, by its ARN, has yet to end. Raises StartUnavailable."""
    try:
        answer = _client.describe_execution(executionArn=execution)
    except _client.exceptions.ExecutionDoesNotExist:
        return False
    except (ClientError, BotoCoreError) as error:
        raise StartUnavailable(f"{execution}: not described: {type(error).__name__}") from None
    return bool(answer["status"] == "RUNNING")


def start(machine_arn: str, name: str, data: dict[str, Any]) -> None:
    """Start an execution; one of that name that was started before will do. Raises StartUnavailable."""
    try:
        _client.start_execution(stateMachineArn=machine_arn, name=name, input=json.dumps(data))
    except _client.exceptions.ExecutionAlreadyExists:
        pass
    except (ClientError, BotoCoreError) as error:
        raise StartUnavailable(f"{name}: not started: {type(error).__name__}") from None
