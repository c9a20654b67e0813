"""Start a settlement now and ask for it later: StartExecution on the Standard machine."""

import json
import os
import uuid

import boto3
from botocore.config import Config

# boto3 must not repeat a start by itself.
step_functions = boto3.client("stepfunctions", config=Config(retries={"total_max_attempts": 1}))


class Refused(Exception):
    """Nothing was written, and the same request will be refused again."""


class Unknown(Exception):
    """The outcome is unknown: start again with the same request, above all with the same key."""


def start(request: dict) -> str:
    """Start a settlement, or ask for one by its key. Return the execution's ARN.

    After any exception it may have started: call again with the same request.
    """
    answer = step_functions.start_execution(
        stateMachineArn=os.environ["SETTLEMENT_STANDARD_ARN"],
        name=f"{request['key']}-{uuid.uuid4().hex[:12]}",  # a new one for every start
        input=json.dumps(request),
    )
    return answer["executionArn"]


def look(execution: str) -> dict | None:
    """Return the outcome at the execution's end; None while it runs."""
    answer = step_functions.describe_execution(executionArn=execution)
    if answer["status"] == "RUNNING":
        return None
    if answer["status"] == "SUCCEEDED":
        return json.loads(answer["output"])
    error = answer.get("error", answer["status"])
    if error in ("InvalidRequest", "IdempotencyConflict"):
        raise Refused(error, json.loads(answer["cause"])["errorMessage"])
    raise Unknown(error)
