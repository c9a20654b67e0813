"""The steps and their reversals as plain writes, one transaction each, on accounts of one payment.

A step is recorded on the payment's row. A reversal reads that row, and does nothing if there is nothing to
reverse, as AWS's guide to sagas with durable functions asks.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import boto3
from botocore.exceptions import ClientError, ReadTimeoutError

from benchmarks.lives.life import Life, Step
from benchmarks.lives.storm import Storm
from benchmarks.rivals import AMOUNT, FEE, OPENING, Place

PAID = AMOUNT - FEE
PAYMENT = "PAYMENT"
_REJECTED = "REJECTED"


class Refused(Exception):
    """A permanent refusal: by the KYC provider, or because an account does not exist."""


def lost() -> Exception:
    """Return the error of a client whose answer got lost."""
    error: Exception = ReadTimeoutError(endpoint_url="dynamodb")
    return error


def refused() -> Exception:
    """Return the error of a client that DynamoDB temporarily refuses."""
    answer = {"Error": {"Code": "InternalServerError", "Message": "try again"}}
    error: Exception = ClientError(answer, "TransactWriteItems")
    return error


@cache
def client(url: str) -> Any:
    """Return the client of a server, shared by all lives."""
    return boto3.client("dynamodb", endpoint_url=url)


class Table:
    """The accounts and the row of one payment, in the table of all lives."""

    def __init__(self, place: Place, life: Life) -> None:
        self._client = client(place.url)
        self._table, self._life = place.table, f"{life.seed}"
        self._kept: dict[str, Any] = {}
        for name, available in (("alice", OPENING), ("bob", 0), ("fees", 0)):
            self._put(self.key(name) | {"available": {"N": str(available)}})

    def key(self, name: str) -> dict[str, Any]:
        """Return the key of an account, or of the payment's row."""
        return {"pk": {"S": f"{self._life}#{name}"}, "sk": {"S": "ROW"}}

    def row(self, name: str) -> Mapping[str, Any]:
        """Return a row, or an empty one."""
        found = self._client.get_item(TableName=self._table, Key=self.key(name), ConsistentRead=True)
        row: Mapping[str, Any] = found.get("Item", {})
        return row

    def close(self, who: str) -> None:
        """Delete an account from the table; keep its row for `reopen`."""
        name = _names(who)
        self._kept[name] = self.row(name)
        self._client.delete_item(TableName=self._table, Key=self.key(name))

    def reopen(self, who: str) -> None:
        """Put an account's row back."""
        self._put(self._kept.pop(_names(who)))

    def moved(self) -> dict[str, int]:
        """Return the changes of the balances since the opening."""
        rows = {name: self._kept.get(name) or self.row(name) for name in ("alice", "bob", "fees")}
        found = {name: int(row["available"]["N"]) for name, row in rows.items()}
        found["alice"] -= OPENING
        return found | {"escrow": int(self.row(PAYMENT).get("escrow", {"N": "0"})["N"])}

    def transact(self, *updates: Any) -> None:
        """Commit all updates, or none. Raises Refused for a failed condition."""
        items = [{"Update": {"TableName": self._table, **update}} for update in updates]
        try:
            self._client.transact_write_items(TransactItems=items)
        except self._client.exceptions.TransactionCanceledException as failed:
            raise Refused("an account is closed, or has too little") from failed

    def change(self, name: str, amount: int) -> Any:
        """Return the update of an account that exists and does not go below zero."""
        return {
            "Key": self.key(name),
            "UpdateExpression": "ADD available :change",
            "ConditionExpression": "available >= :least",
            "ExpressionAttributeValues": _numbers(change=amount, least=max(0, -amount)),
        }

    def record(self, step: Step, escrow: int, how: str) -> Any:
        """Return the update of the payment's row: the change of its escrow, and how a step has ended."""
        return {
            "Key": self.key(PAYMENT),
            "UpdateExpression": "ADD escrow :change SET #step = :how",
            "ExpressionAttributeNames": {"#step": step},
            "ExpressionAttributeValues": _numbers(change=escrow) | {":how": {"S": how}},
        }

    def _put(self, row: Any) -> None:
        self._client.put_item(TableName=self._table, Item=row)


class Steps:
    """The functions of the steps."""

    def __init__(self, table: Table, storm: Storm) -> None:
        self._table, self._storm = table, storm

    def take(self, step: Step) -> None:
        """Take a step, or reverse one. Raises Refused, and the errors of the client."""
        self._storm.begins(step)
        getattr(self, f"_{step}")()
        self._storm.answered(step)

    def _hold(self) -> None:
        self._move(Step.HOLD, [("alice", -AMOUNT)], AMOUNT)

    def _verify(self) -> None:
        verdict = _REJECTED if self._storm.life.is_rejected else "APPROVED"
        self._move(Step.VERIFY, [], 0, verdict)
        if verdict == _REJECTED:
            raise Refused("the KYC provider rejects the payment")

    def _release(self) -> None:
        self._move(Step.RELEASE, [("bob", PAID)], -PAID)

    def _fee(self) -> None:
        self._move(Step.FEE, [("fees", FEE)], -FEE)

    def _refund(self) -> None:
        self._reverse(Step.REFUND, Step.FEE, ("fees", -FEE), FEE)

    def _reclaim(self) -> None:
        self._reverse(Step.RECLAIM, Step.RELEASE, ("bob", -PAID), PAID)

    def _void(self) -> None:
        self._reverse(Step.VOID, Step.HOLD, ("alice", AMOUNT), -AMOUNT)

    def _move(
        self,
        step: Step,
        changes: list[tuple[str, int]],
        escrow: int,
        how: str = "done",
        of: Step | None = None,
    ) -> None:
        updates = [self._table.change(*change) for change in changes]
        updates.append(self._table.record(of or step, escrow, how))
        self._storm.write(step, lambda: self._table.transact(*updates))

    def _reverse(self, step: Step, of: Step, change: tuple[str, int], escrow: int) -> None:
        if self._table.row(PAYMENT).get(of) == {"S": "done"}:
            self._move(step, [change], escrow, "reversed", of)


def _names(who: str) -> str:
    return {"payer": "alice", "payee": "bob"}[who]


def _numbers(**values: int) -> dict[str, Any]:
    return {f":{name}": {"N": str(value)} for name, value in values.items()}
