"""Limits a payer's amount a day, counted in a table of its own, with the key `id` (a string).

The answer is a separate row, put in one transaction with the count, so no token counts twice.
"""

import os
from functools import cache
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from settlement.checks.check import Answer, Approve, Check, Payment, Refuse, Tools

TABLE = os.environ.get("LIMITS_TABLE", "limits")
LIMIT = 100_000
"""Maximum per payer, currency and day, in minor units."""


def ask(payment: Payment, token: str, tools: Tools) -> Answer:
    if payment.amount > LIMIT:
        return Refuse("above_limit")
    day = f"{payment.payer}#{payment.currency}#{tools.now():%Y-%m-%d}"
    if not _answered(token):
        try:
            _count(token, day, payment.amount)
        except ClientError as error:
            if error.response["Error"]["Code"] != "TransactionCanceledException":
                raise
            if not _answered(token):
                _put(token)
    return Approve() if _answered(token) == "approve" else Refuse("above_limit")


def _answered(token: str) -> str | None:
    found = _client().get_item(TableName=TABLE, Key={"id": {"S": token}}, ConsistentRead=True).get("Item")
    return found["answer"]["S"] if found else None


def _count(token: str, day: str, amount: int) -> None:
    row = {"id": {"S": token}, "answer": {"S": "approve"}}
    count = {
        "TableName": TABLE,
        "Key": {"id": {"S": day}},
        "UpdateExpression": "ADD spent :amount",
        "ConditionExpression": "attribute_not_exists(spent) OR spent <= :rest",
        "ExpressionAttributeValues": {":amount": {"N": str(amount)}, ":rest": {"N": str(LIMIT - amount)}},
    }
    put = {"TableName": TABLE, "Item": row, "ConditionExpression": "attribute_not_exists(id)"}
    _client().transact_write_items(TransactItems=[{"Put": put}, {"Update": count}])


def _put(token: str) -> None:
    row = {"id": {"S": token}, "answer": {"S": "refuse"}}
    try:
        _client().put_item(TableName=TABLE, Item=row, ConditionExpression="attribute_not_exists(id)")
    except ClientError as error:
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise


@cache
def _client() -> Any:
    return boto3.client(
        "dynamodb", config=Config(connect_timeout=1, read_timeout=1, retries={"total_max_attempts": 1})
    )


CHECK = Check(name="limits", refusals=("above_limit",), ask=ask)
