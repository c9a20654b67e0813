"""Three ways to start a settlement: the Express workflow, the Standard workflow and the start queue."""

import json
import secrets
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from settlement_client.errors import IdempotencyConflict, InvalidRequest, MalformedAnswer, Refused, Unknown
from settlement_client.outcome import Outcome
from settlement_client.request import Request

_ONCE = {"total_max_attempts": 1}
"""boto3 does not retry a start. The caller decides, with the same key."""

_EXPRESS_SECONDS_MAX = 310
"""Read timeout. An Express execution may take 300 s."""

_REFUSALS: dict[str, type[Refused]] = {
    "InvalidRequest": InvalidRequest,
    "IdempotencyConflict": IdempotencyConflict,
}


def patient(session: boto3.Session) -> Any:
    """Return a Step Functions client that waits for the end of an Express execution."""
    config = Config(read_timeout=_EXPRESS_SECONDS_MAX, retries=_ONCE)
    return session.client("stepfunctions", config=config)


def prompt(session: boto3.Session) -> Any:
    """Return a Step Functions client that waits only for the start of an execution."""
    return session.client("stepfunctions", config=Config(retries=_ONCE))


def start_express(step_functions: Any, arn: str, request: Request) -> Outcome:
    """Settle a payment and return its outcome. Raises Refused. Raises Unknown: call again."""
    try:
        answer = step_functions.start_sync_execution(
            stateMachineArn=arn, name=_name(request), input=request.to_json()
        )
        if answer["status"] == "SUCCEEDED":  # HTTP 200 says only that it was started
            return _own(Outcome.from_json(answer["output"]), request)
    except (BotoCoreError, ClientError, MalformedAnswer) as failed:
        raise Unknown.of(request.key, failed) from failed
    error = answer.get("error", answer["status"])
    if error in _REFUSALS:
        raise _REFUSALS[error](f"{request.key}: {_message(answer.get('cause', ''))}")
    raise Unknown.of(request.key, error)


def start_standard(step_functions: Any, arn: str, request: Request) -> str:
    """Start a settlement and return its execution's ARN. Raises Unknown: call again."""
    try:
        answer = step_functions.start_execution(
            stateMachineArn=arn, name=_name(request), input=request.to_json()
        )
    except (BotoCoreError, ClientError) as failed:
        raise Unknown.of(request.key, failed) from failed
    return str(answer["executionArn"])


def send(sqs: Any, url: str, request: Request) -> None:
    """Send a request to the start queue. Raises Unknown: send it again. Two messages are one settlement.

    The message group makes a standard queue fair: one payer's backlog does not delay others.
    """
    try:
        sqs.send_message(QueueUrl=url, MessageBody=request.to_json(), MessageGroupId=request.payer)
    except (BotoCoreError, ClientError) as failed:
        raise Unknown.of(request.key, failed) from failed


def _name(request: Request) -> str:
    """Return a new execution name. It does not prevent a second payment; the key does."""
    return f"{request.key}-{secrets.token_hex(4)}"


def _own(outcome: Outcome, request: Request) -> Outcome:
    if outcome.key != request.key:
        raise MalformedAnswer("outcome.key: is not the key of the request")
    return outcome


def _message(cause: str) -> str:
    try:
        content: Any = json.loads(cause)
        return str(content["errorMessage"])
    except (ValueError, TypeError, KeyError):
        return cause
