"""Settle a payment and wait for the answer: StartSyncExecution on the Express machine."""

import json
import os

import boto3
from botocore.config import Config

# An Express execution may take 300 s, and boto3 must not repeat a start by itself.
patient = Config(read_timeout=310, retries={"total_max_attempts": 1})
step_functions = boto3.client("stepfunctions", config=patient)


class Refused(Exception):
    """Nothing was written, and the same request will be refused again."""


class Unknown(Exception):
    """The outcome is unknown: call again with the same request, above all with the same key."""


def settle(request: dict) -> dict:
    """Settle a payment, or return its current state: the same call does both.

    Any other exception than Refused means the same as Unknown.
    """
    answer = step_functions.start_sync_execution(
        stateMachineArn=os.environ["SETTLEMENT_EXPRESS_ARN"], input=json.dumps(request)
    )
    if answer["status"] == "SUCCEEDED":  # HTTP 200 says only that it was started
        return json.loads(answer["output"])
    error = answer.get("error", answer["status"])
    if error in ("InvalidRequest", "IdempotencyConflict"):
        raise Refused(error, json.loads(answer["cause"])["errorMessage"])
    raise Unknown(error)
