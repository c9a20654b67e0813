"""Wake a parent execution with its payment's outcome: a Lambda function.

The parent and an EventBridge rule call it. A payment's row has the parent's task token and the latest
outcome. Token and outcome can each come first, twice or late. The call that finds both wakes the parent.
"""

import json
import os
import re
from typing import Any

import boto3

dynamodb = boto3.client("dynamodb")
step_functions = boto3.client("stepfunctions")

FIELDS = {
    "subject": r"[A-Za-z0-9_-]{16,64}",
    "sequence": r"[1-9][0-9]{0,17}",
    "data.status": "SETTLED|REJECTED|COMPENSATED",
}


class BadEvent(Exception):
    """Not the event of a final outcome: a retry cannot help."""


def handler(event: dict[str, Any], context: object) -> None:
    """Store the token or the outcome. Once both are there, wake the parent. After any failure, call again."""
    if "token" in event:
        values = {":token": {"S": event["token"]}}
        row = update(event["key"], "SET task_token = :token", values)
    else:
        key, sequence, outcome = read(event)
        values = {":sequence": {"N": sequence}, ":outcome": {"S": json.dumps(outcome)}}
        newer = "attribute_not_exists(last_sequence) OR last_sequence < :sequence"
        row = update(
            key, "SET outcome = :outcome, last_sequence = :sequence", values, ConditionExpression=newer
        )
    if "task_token" in row and "outcome" in row:
        wake(row["task_token"]["S"], row["outcome"]["S"])


def read(event: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Return the key, the sequence and the outcome of an event. Raises BadEvent, which names the field."""
    try:
        detail = event["detail"]
        found = detail["subject"], detail["sequence"], detail["data"]["status"]
    except (TypeError, KeyError) as error:
        raise BadEvent(f"no outcome event: {type(error).__name__} {error}") from None
    for (name, pattern), value in zip(FIELDS.items(), found, strict=True):
        if not (isinstance(value, str) and re.fullmatch(pattern, value)):
            raise BadEvent(f"{name}: must match {pattern}")
    key, sequence, _ = found
    return key, sequence, detail["data"]


def update(key: str, expression: str, values: dict[str, Any], **condition: str) -> dict[str, Any]:
    """Change the payment's row, unless `condition` fails. Return the row in both cases."""
    try:
        answer = dynamodb.update_item(
            TableName=os.environ["WAITING_TABLE"],
            Key={"pk": {"S": key}, "sk": {"S": "parent"}},
            UpdateExpression=expression,
            ExpressionAttributeValues=values,
            ReturnValues="ALL_NEW",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
            **condition,
        )
    except dynamodb.exceptions.ConditionalCheckFailedException as error:
        row: dict[str, Any] = error.response["Item"]
        return row  # the call that wrote it may have died before it woke the parent
    row = answer["Attributes"]
    return row


def wake(token: str, outcome: str) -> None:
    """End the parent's wait, unless it has ended: woken before, timed out, or stopped."""
    gone = step_functions.exceptions
    try:
        step_functions.send_task_success(taskToken=token, output=outcome)
    except (gone.TaskTimedOut, gone.TaskDoesNotExist, gone.InvalidToken):
        return
