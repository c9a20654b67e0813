"""The four steps as plain writes, a row each, as AWS's saga samples have them."""

from collections.abc import Mapping
from typing import Any

import boto3

from benchmarks.rivals import OPENING, Place

Event = Mapping[str, Any]


def payment(key: str) -> dict[str, Any]:
    """Return the payment that every rival settles, under a key."""
    return {"key": key, "payer": "alice", "payee": "bob", "amount": 4820, "fee": 48, "currency": "EUR"}


class PlainWrites:
    """The writes of each step, on one table."""

    def __init__(self, place: Place) -> None:
        self._client = boto3.client("dynamodb", endpoint_url=place.url)
        self._table = place.table
        for account, available in (("alice", OPENING), ("bob", 0), ("fees", 0)):
            row = self._key(f"ACCOUNT#{account}") | {"available": {"N": str(available)}}
            self._client.put_item(TableName=self._table, Item=row)

    def hold(self, event: Event) -> None:
        """Take the amount from the payer."""
        self._client.update_item(
            TableName=self._table,
            Key=self._key(f"ACCOUNT#{event['payer']}"),
            UpdateExpression="SET available = available - :amount",
            ConditionExpression="available >= :amount",
            ExpressionAttributeValues={":amount": {"N": str(event["amount"])}},
        )

    def verify(self, event: Event) -> None:
        """Put the payment's row, with the verdict."""
        texts = {name: {"S": str(event[name])} for name in ("payer", "payee", "currency")}
        numbers = {name: {"N": str(event[name])} for name in ("amount", "fee")}
        row = {**self._key(f"PAYMENT#{event['key']}"), **texts, **numbers, "verdict": {"S": "APPROVED"}}
        self._client.put_item(TableName=self._table, Item=row)

    def release(self, event: Event) -> None:
        """Add the amount without the fee to the payee."""
        self._add(event["payee"], event["amount"] - event["fee"])

    def collect(self, event: Event) -> None:
        """Add the fee to the fees, and confirm the payment."""
        self._add("fees", event["fee"])
        self._client.update_item(
            TableName=self._table,
            Key=self._key(f"PAYMENT#{event['key']}"),
            UpdateExpression="SET #status = :settled",
            ExpressionAttributeNames={"#status": "status"},
            ExpressionAttributeValues={":settled": {"S": "SETTLED"}},
        )

    def _add(self, account: str, amount: int) -> None:
        self._client.update_item(
            TableName=self._table,
            Key=self._key(f"ACCOUNT#{account}"),
            UpdateExpression="SET available = available + :amount",
            ExpressionAttributeValues={":amount": {"N": str(amount)}},
        )

    @staticmethod
    def _key(pk: str) -> dict[str, Any]:
        return {"pk": {"S": pk}, "sk": {"S": "ROW"}}
