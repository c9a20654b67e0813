"""Apply outcome events to orders in DynamoDB, each at most once: a Lambda function behind an SQS queue.

An order has two rows, with its payment's idempotency key as `pk`: the order, and the last sequence applied.
"""

import json
import os
import re
from typing import Any

import boto3
from botocore.exceptions import ClientError

dynamodb = boto3.client("dynamodb")

PAYMENT = {
    "PROCESSING": "PENDING",
    "COMPENSATING": "PENDING",
    "LIMBO": "PENDING",
    "SETTLED": "PAID",
    "REJECTED": "NOT_PAID",
    "COMPENSATED": "NOT_PAID",
}
FIELDS = {
    "subject": r"[A-Za-z0-9_-]{16,64}",
    "sequence": r"[1-9][0-9]{0,17}",
    "data.status": "|".join(PAYMENT),
}


class BadMessage(Exception):
    """Not an outcome event of one of our orders: a retry cannot help."""


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Apply each message separately. A failed one comes again, and at last goes to the dead-letter queue."""
    failed = []
    for message in event["Records"]:
        try:
            apply(*read(message["body"]))
        except Exception as error:  # of one message, which must not stop the others
            told = f"{type(error).__name__}: {error}"
            print(json.dumps({"level": "ERROR", "message_id": message["messageId"], "error": told}))
            failed.append({"itemIdentifier": message["messageId"]})
    return {"batchItemFailures": failed}


def read(body: str) -> tuple[str, str, str]:
    """Return the key, the sequence and the payment of an event. Raises BadMessage, which names the field."""
    try:
        event = json.loads(body)["detail"]
        found = event["subject"], event["sequence"], event["data"]["status"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadMessage(f"no outcome event: {type(error).__name__} {error}") from None
    for (name, pattern), value in zip(FIELDS.items(), found, strict=True):
        if not (isinstance(value, str) and re.fullmatch(pattern, value)):
            raise BadMessage(f"{name}: must match {pattern}")
    key, sequence, status = found
    return key, sequence, PAYMENT[status]


def apply(key: str, sequence: str, payment: str) -> None:
    """Set an order's payment unless this or a newer event was applied. Both rows change, or neither."""
    table = os.environ["ORDERS_TABLE"]
    newer = {
        "TableName": table,
        "Key": {"pk": {"S": key}, "sk": {"S": "inbox"}},
        "UpdateExpression": "SET last_sequence = :sequence",
        "ConditionExpression": "attribute_not_exists(last_sequence) OR last_sequence < :sequence",
        "ExpressionAttributeValues": {":sequence": {"N": sequence}},
    }
    effect = {
        "TableName": table,
        "Key": {"pk": {"S": key}, "sk": {"S": "order"}},
        "UpdateExpression": "SET payment = :payment ADD changes :one",
        "ConditionExpression": "attribute_exists(pk)",
        "ExpressionAttributeValues": {":payment": {"S": payment}, ":one": {"N": "1"}},
    }
    try:
        dynamodb.transact_write_items(TransactItems=[{"Update": newer}, {"Update": effect}])
    except ClientError as error:
        failed = [reason["Code"] for reason in error.response.get("CancellationReasons", ())]
        if failed[1:] == ["ConditionalCheckFailed"]:
            raise BadMessage(f"subject: no order has the payment {key}") from None
        if failed[:1] != ["ConditionalCheckFailed"]:
            raise  # throttling, or two readers at once: the message comes again
