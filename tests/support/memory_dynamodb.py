"""DynamoDB in memory, with the semantics that the store relies on, and fast enough for millions of calls.

It speaks the client's language: the same parameters, answers and errors. One table, whose name is not
looked at, with the keys `pk` and `sk` and the index `gsi1`, whose readers may be behind. AWS's DynamoDB Local
has the last word: `tests/store/test_memory.py` sends both the same random operations and finds no difference.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from tests.support import expressions
from tests.support.expressions import Invalid, Item, Value

Key = tuple[str, str]
Changes = list[tuple[Item | None, Item | None]]

_KEYS = ("pk", "sk", "gsi1pk", "gsi1sk")
_BEHIND_MAX = 1_000
_TRANSACTION_ITEMS_MAX = 100
_CONDITION_FAILED = "The conditional request failed"
_UNITS = {"TableName": "memory", "CapacityUnits": 1.0}


class MemoryDynamoDb:
    """One table. `committed` is told of each commit: the rows before and after it, None where there is none.

    `behind` says, at each query, how many of the latest changes its index has not heard of yet.
    """

    def __init__(
        self,
        committed: Callable[[Changes], None] = lambda changes: None,
        behind: Callable[[], int] = lambda: 0,
    ) -> None:
        self.items: dict[Key, Item] = {}
        self._committed, self._behind = committed, behind
        self._listed: dict[str, dict[Key, Item]] = {}
        self._listed_in: dict[Key, str] = {}
        self._unlisted: list[tuple[Key, Item | None]] = []

    # The client's operations.

    def put_item(self, *, TableName: str, Item: Item, **parameters: Any) -> dict[str, Any]:  # noqa: N803
        return self._write_one({"Item": Item, **parameters})

    def update_item(self, *, TableName: str, Key: Item, **parameters: Any) -> dict[str, Any]:  # noqa: N803
        return self._write_one({"Key": Key, **parameters})

    def delete_item(self, *, TableName: str, Key: Item) -> dict[str, Any]:  # noqa: N803
        self._commit([(_key(Key), None)])
        return {}

    def get_item(self, *, TableName: str, Key: Item, **parameters: Any) -> dict[str, Any]:  # noqa: N803
        found = self.items.get(_key(Key))
        return {"ConsumedCapacity": _UNITS} | ({"Item": dict(found)} if found else {})

    def transact_write_items(
        self,
        *,
        TransactItems: Sequence[Mapping[str, Any]],  # noqa: N803
        **parameters: Any,
    ) -> dict[str, Any]:
        """Commit all of the writes or none."""
        writes = [write for item in TransactItems for write in item.values()]
        keys = [_key(write.get("Key") or write["Item"]) for write in writes]
        if len(set(keys)) != len(keys) or not 0 < len(keys) <= _TRANSACTION_ITEMS_MAX:
            raise _invalid(
                "transact_write_items", "Transaction request cannot include multiple operations on one item"
            )
        changes: list[tuple[Key, Item | None]] = []
        reasons: list[dict[str, Any]] = []
        for key, write in zip(keys, writes, strict=True):
            reason: dict[str, Any] = {"Code": "None"}
            try:
                row = self._written(key, write)
                if row is None:
                    reason = {
                        "Code": "ConditionalCheckFailed",
                        "Message": _CONDITION_FAILED,
                        **self._old(key, write),
                    }
                else:
                    changes.append((key, row))
            except Invalid as invalid:
                reason = {"Code": "ValidationError", "Message": str(invalid)}
            reasons.append(reason)
        if any(reason["Code"] != "None" for reason in reasons):
            told = ", ".join(reason["Code"] for reason in reasons)
            raise error(
                "transact_write_items",
                "TransactionCanceledException",
                f"Transaction cancelled, please refer cancellation reasons for specific reasons [{told}]",
                CancellationReasons=reasons,
            )
        self._commit(changes)
        return {"ConsumedCapacity": [_UNITS] * len(writes)}

    def query(
        self,
        *,
        TableName: str,  # noqa: N803
        IndexName: str,  # noqa: N803
        KeyConditionExpression: str,  # noqa: N803
        ExpressionAttributeValues: Mapping[str, Value],  # noqa: N803
        ProjectionExpression: str,  # noqa: N803
        Limit: int,  # noqa: N803
        ExclusiveStartKey: Item | None = None,  # noqa: N803
        **parameters: Any,
    ) -> dict[str, Any]:
        """What the index lists, in the order of its sort keys, as of a while ago."""
        self._list(keep=self._behind())
        matches = expressions.condition(KeyConditionExpression)
        _check_used(matches.uses, ExpressionAttributeValues)
        partition = ExpressionAttributeValues[KeyConditionExpression.split()[2]]["S"]  # gsi1pk = :name AND …
        listed = sorted(self._listed.get(partition, {}).items(), key=_place)
        found = [entry for entry in listed if matches.holds(entry[1], {}, ExpressionAttributeValues)]
        if ExclusiveStartKey:
            after = _place((_key(ExclusiveStartKey), ExclusiveStartKey))
            found = [entry for entry in found if _place(entry) > after]
        names = ProjectionExpression.split(", ")
        page = found[:Limit]
        answer = {
            "Items": [{name: item[name] for name in names if name in item} for _, item in page],
            "ConsumedCapacity": _UNITS,
        }
        if page and len(page) == Limit:
            answer["LastEvaluatedKey"] = {name: page[-1][1][name] for name in _KEYS}
        return answer

    def scan(self) -> Iterator[Item]:
        """All rows there are."""
        return iter(list(self.items.values()))

    def get_paginator(self, operation: str) -> "MemoryDynamoDb":
        """Of a scan, in one page."""
        assert operation == "scan"
        return self

    def paginate(self, **parameters: Any) -> Iterator[dict[str, Any]]:
        yield {"Items": [dict(item) for item in self.items.values()]}

    # How they come about.

    def _write_one(self, write: Mapping[str, Any]) -> dict[str, Any]:
        operation = "put_item" if "Item" in write else "update_item"
        key = _key(write.get("Key") or write["Item"])
        try:
            row = self._written(key, write)
        except Invalid as invalid:
            raise _invalid(operation, str(invalid)) from None
        if row is None:
            raise error(
                operation, "ConditionalCheckFailedException", _CONDITION_FAILED, **self._old(key, write)
            )
        self._commit([(key, row)])
        answer: dict[str, Any] = {"ConsumedCapacity": _UNITS}
        return answer | ({"Attributes": dict(row)} if write.get("ReturnValues") == "ALL_NEW" else {})

    def _written(self, key: Key, write: Mapping[str, Any]) -> Item | None:
        """The row as the write leaves it; None where its condition does not hold."""
        old = self.items.get(key, {})
        names, values = write.get("ExpressionAttributeNames", {}), write.get("ExpressionAttributeValues", {})
        values = {name: expressions.normal(value) for name, value in values.items()}
        condition = (
            expressions.condition(write["ConditionExpression"]) if "ConditionExpression" in write else None
        )
        change = expressions.change(write["UpdateExpression"]) if "UpdateExpression" in write else None
        used = (condition.uses if condition else frozenset()) | (change.uses if change else frozenset())
        _check_used(used, {**names, **values})
        if condition and not condition.holds(old, names, values):
            return None
        if change is None:
            row: Item = {name: expressions.normal(value) for name, value in write["Item"].items()}
        else:
            row = change.apply(old or write["Key"], names, values)
            if _key(row) != key:
                raise Invalid("Cannot update attribute pk. This attribute is part of the key")
        for name in _KEYS:
            if name in row and not row[name].get("S"):
                raise Invalid(
                    f"One or more parameter values were invalid: {name} must be a text, and not empty"
                )
        return row

    def _old(self, key: Key, write: Mapping[str, Any]) -> dict[str, Any]:
        old = self.items.get(key)
        asked = write.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
        return {"Item": dict(old)} if old and asked else {}

    def _commit(self, changes: list[tuple[Key, Item | None]]) -> None:
        told: Changes = []
        for key, row in changes:
            told.append((self.items.get(key), row))
            if row is None:
                self.items.pop(key, None)
            else:
                self.items[key] = row
            self._unlisted.append((key, row))
        if len(self._unlisted) > _BEHIND_MAX:
            self._list(keep=_BEHIND_MAX // 2)
        self._committed(told)

    def _list(self, keep: int) -> None:
        """Let the index hear of all changes but the latest `keep`."""
        known = max(0, len(self._unlisted) - keep)
        for key, row in self._unlisted[:known]:
            before = self._listed_in.pop(key, None)
            if before is not None:
                del self._listed[before][key]
            if row and "gsi1pk" in row and "gsi1sk" in row:
                partition = self._listed_in[key] = row["gsi1pk"]["S"]
                self._listed.setdefault(partition, {})[key] = row
        del self._unlisted[:known]


def error(operation: str, code: str, message: str, **more: Any) -> ClientError:
    """What the client raises for an answer that is an error."""
    http = 500 if code == "InternalServerError" else 400
    response = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": http},
        **more,
    }
    return ClientError(response, operation)  # type: ignore[arg-type]


def _invalid(operation: str, message: str) -> ClientError:
    return error(operation, "ValidationException", message)


def _check_used(used: frozenset[str], given: Mapping[str, Any]) -> None:
    if used != given.keys():
        raise Invalid(f"An expression uses {sorted(used)}, and is given {sorted(given)}")


def _key(item: Item) -> Key:
    return item["pk"]["S"], item["sk"]["S"]


def _place(entry: tuple[Key, Item]) -> tuple[bytes, Key]:
    key, item = entry
    return item["gsi1sk"]["S"].encode(), key
