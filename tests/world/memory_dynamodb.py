"""DynamoDB in memory, with the store's required semantics, fast enough for millions of calls.

It has one table, with index `gsi1`, which may lag. `tests/store/test_memory.py` compares it with real
engines; docs/decisions/2026-11-22-test-engines.md lists the differences.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple
from zlib import crc32

from botocore.exceptions import ClientError

from tests.world import expressions
from tests.world.expressions import Change, Condition, Item, Names, Values
from tests.world.values import Invalid, Value, normal

Key = tuple[str, str]
Changes = list[tuple[Item | None, Item | None]]

_KEYS = ("pk", "sk", "gsi1pk", "gsi1sk")
_KNOWN = {
    *("TableName", "Item", "Key", "ConditionExpression", "UpdateExpression", "ExpressionAttributeNames"),
    *("ExpressionAttributeValues", "ReturnValues", "ReturnValuesOnConditionCheckFailure"),
    "ReturnConsumedCapacity",
}
_ACTIONS = {"Put", "Update"}
_BEHIND_MAX = 1_000
_PAGE_ROWS = 1_000
_BETWEEN = "pk = :partition AND sk BETWEEN :first AND :last"
_BETWEEN_TWO = re.compile(r"(gsi1sk) BETWEEN (:\w+) AND (:\w+)")
"""A range condition on the index's sort key; DynamoDB refuses two comparisons of one key."""

_WHOLE = "pk = :pk"
_TRANSACTION_ITEMS_MAX = 100
_CONDITION_FAILED = "The conditional request failed"
_UNITS = {"TableName": "memory", "CapacityUnits": 1.0}


class ConditionalCheckFailed(ClientError):
    """The client's exception for a failed condition of a single write."""


class _Sound(NamedTuple):
    """A valid write, parsed. `item` is a put's row, or an update's key."""

    names: Names
    values: Values
    item: Item
    writes: frozenset[str]
    condition: Condition | None
    change: Change | None


class MemoryDynamoDb:
    """One table, initially with `items`.

    `committed` gets each commit's rows before and after; None is a missing row. `behind` returns how many
    latest changes the index lacks at a query.
    """

    exceptions = SimpleNamespace(ConditionalCheckFailedException=ConditionalCheckFailed)

    def __init__(
        self,
        committed: Callable[[Changes], None] = lambda changes: None,
        behind: Callable[[], int] = lambda: 0,
        items: Mapping[Key, Item] | None = None,
    ) -> None:
        self.items: dict[Key, Item] = dict(items or {})
        self.page_rows = _PAGE_ROWS
        self._committed, self._behind = committed, behind
        self._listed: dict[str, dict[Key, Item]] = {}
        self._listed_in: dict[Key, str] = {}
        self._unlisted: list[tuple[Key, Item | None]] = [*self.items.items()]

    # The client's operations.

    def put_item(self, *, TableName: str, Item: Item, **parameters: Any) -> dict[str, Any]:  # noqa: N803
        return self._write_one({"Item": Item, **parameters})

    def update_item(self, *, TableName: str, Key: Item, **parameters: Any) -> dict[str, Any]:  # noqa: N803
        return self._write_one({"Key": Key, **parameters})

    def delete_item(self, *, TableName: str, Key: Item) -> dict[str, Any]:  # noqa: N803
        self._commit([(_key(Key), None)])
        return {}

    def get_item(self, *, Key: Item, **_: Any) -> dict[str, Any]:  # noqa: N803
        """Return the latest row, even to an eventually consistent read."""
        found = self.items.get(_key(Key))
        return {"ConsumedCapacity": _UNITS} | ({"Item": dict(found)} if found else {})

    def transact_write_items(
        self,
        *,
        TransactItems: Sequence[Mapping[str, Any]],  # noqa: N803
        **parameters: Any,
    ) -> dict[str, Any]:
        if not all(item.keys() <= _ACTIONS for item in TransactItems):
            raise TypeError("of a transaction's actions only Put and Update are known here")
        changes, reasons = self._judged([write for item in TransactItems for write in item.values()])
        if len(changes) < len(reasons):
            told = ", ".join(reason["Code"] for reason in reasons)
            raise error(
                "transact_write_items",
                "TransactionCanceledException",
                f"Transaction cancelled, please refer cancellation reasons for specific reasons [{told}]",
                CancellationReasons=reasons,
            )
        self._commit(changes)
        return {"ConsumedCapacity": [_UNITS] * len(changes)}

    def reasons(self, writes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the cancellation reasons that a transaction would get now, without committing it."""
        return self._judged(writes)[1]

    def query(
        self,
        *,
        TableName: str,  # noqa: N803
        KeyConditionExpression: str,  # noqa: N803
        ExpressionAttributeValues: Mapping[str, Value],  # noqa: N803
        IndexName: str = "",  # noqa: N803
        ProjectionExpression: str = "",  # noqa: N803
        Limit: int = 0,  # noqa: N803
        ExclusiveStartKey: Item | None = None,  # noqa: N803
        **parameters: Any,
    ) -> dict[str, Any]:
        """Return the index's rows in order, without changes it still lacks.

        Without an index, return a page of a partition's range.
        """
        if not IndexName:
            return self._page(
                KeyConditionExpression,
                ExpressionAttributeValues,
                ExclusiveStartKey,
                rows=Limit or self.page_rows,
                **parameters,
            )
        self._list(keep=self._behind())
        KeyConditionExpression = _BETWEEN_TWO.sub(r"\1 >= \2 AND \1 <= \3", KeyConditionExpression)  # noqa: N806
        try:
            expressions.check({}, ExpressionAttributeValues, asks=KeyConditionExpression)
            if {"S": ""} in ExpressionAttributeValues.values():
                raise Invalid("One or more parameter values are not valid: an index key is empty")
        except Invalid as invalid:
            raise _invalid("query", str(invalid)) from None
        matches = expressions.condition(KeyConditionExpression)
        partition = ExpressionAttributeValues[KeyConditionExpression.split()[2]]["S"]  # gsi1pk = :name AND …
        if not self._listed.get(partition):
            return {"Items": [], "ConsumedCapacity": _UNITS}
        listed = sorted(self._listed[partition].items(), key=_place)
        found = [entry for entry in listed if matches.holds(entry[1], {}, ExpressionAttributeValues)]
        if ExclusiveStartKey:
            after = _place((_key(ExclusiveStartKey), ExclusiveStartKey))
            found = [entry for entry in found if _place(entry) > after]
        names = ProjectionExpression.split(", ")
        page = found[: Limit or self.page_rows]
        answer = {
            "Items": [{name: item[name] for name in names if name in item} for _, item in page],
            "ConsumedCapacity": _UNITS,
        }
        if page and len(page) == (Limit or self.page_rows):
            answer["LastEvaluatedKey"] = {name: page[-1][1][name] for name in _KEYS}
        return answer

    def _page(
        self,
        asks: str,
        values: Mapping[str, Value],
        after: Item | None,
        *,
        rows: int,
        ConsistentRead: bool,  # noqa: N803
        ReturnConsumedCapacity: str = "NONE",  # noqa: N803
    ) -> dict[str, Any]:
        """Return the next page of a partition's range, without snapshot isolation."""
        if ConsistentRead and asks == _WHOLE and values.keys() == {":pk"}:
            values = {":partition": values[":pk"], ":first": {"S": ""}, ":last": {"S": "\U0010ffff"}}
        elif not ConsistentRead or asks != _BETWEEN or values.keys() != {":partition", ":first", ":last"}:
            raise TypeError(f"not known here: {asks}")
        partition, first, last = (values[name]["S"] for name in (":partition", ":first", ":last"))
        if first.encode() > last.encode():
            raise _invalid(
                "query", "Invalid KeyConditionExpression: the upper bound is below the lower bound"
            )
        begin = _key(after)[1].encode() if after else None
        found = sorted(
            (sk.encode(), item)
            for (pk, sk), item in self.items.items()
            if pk == partition and first.encode() <= sk.encode() <= last.encode()
        )
        left = [item for sk, item in found if begin is None or sk > begin]
        page = left[: min(rows, self.page_rows)]
        answer: dict[str, Any] = {"Items": [dict(item) for item in page], "ConsumedCapacity": _UNITS}
        if len(page) < len(left):
            answer["LastEvaluatedKey"] = {name: page[-1][name] for name in ("pk", "sk")}
        return answer

    def scan(
        self,
        *,
        TableName: str,  # noqa: N803
        ConsistentRead: bool,  # noqa: N803
        Segment: int = 0,  # noqa: N803
        TotalSegments: int = 1,  # noqa: N803
        Limit: int = _PAGE_ROWS,  # noqa: N803
        ExclusiveStartKey: Item | None = None,  # noqa: N803
        ProjectionExpression: str = "",  # noqa: N803
        ExpressionAttributeNames: Names | None = None,  # noqa: N803
        ReturnConsumedCapacity: str = "NONE",  # noqa: N803
    ) -> dict[str, Any]:
        """Return a segment's next page in hash order, without snapshot isolation."""
        if not ConsistentRead:
            raise TypeError("only consistent reads are known here")
        begin = _scanned(_key(ExclusiveStartKey)) if ExclusiveStartKey else None
        places = sorted((_scanned(key), key) for key in self.items if _hash(key) % TotalSegments == Segment)
        left = [key for place, key in places if begin is None or place > begin]
        page = left[: min(Limit, self.page_rows)]
        given = ExpressionAttributeNames or {}
        names = {given.get(name, name) for name in ProjectionExpression.split(", ") if name}
        answer: dict[str, Any] = {"ConsumedCapacity": _UNITS}
        answer["Items"] = [
            {name: value for name, value in self.items[key].items() if name in names or not names}
            for key in page
        ]
        if len(page) < len(left):
            answer["LastEvaluatedKey"] = {"pk": {"S": page[-1][0]}, "sk": {"S": page[-1][1]}}
        return answer

    def batch_get_item(self, *, RequestItems: Mapping[str, Any]) -> dict[str, Any]:  # noqa: N803
        """Return the existing rows. Raises ClientError for duplicate keys."""
        ((table, asked),) = RequestItems.items()
        keys = [_key(key) for key in asked["Keys"]]
        if len(set(keys)) != len(keys):
            raise _invalid("batch_get_item", "Provided list of item keys contains duplicates")
        found = [dict(self.items[key]) for key in keys if key in self.items]
        return {"Responses": {table: found}, "UnprocessedKeys": {}}

    def get_paginator(self, operation: str) -> "Pages":
        return Pages(getattr(self, operation))

    # The implementation.

    def _write_one(self, write: Mapping[str, Any]) -> dict[str, Any]:
        operation = "put_item" if "Item" in write else "update_item"
        key = _key(write.get("Key") or write["Item"])
        try:
            row = self._written(key, _sound(write))
        except Invalid as invalid:
            raise _invalid(operation, str(invalid)) from None
        if row is None:
            raise error(
                operation, "ConditionalCheckFailedException", _CONDITION_FAILED, **self._old(key, write)
            )
        self._commit([(key, row)])
        answer: dict[str, Any] = {"ConsumedCapacity": _UNITS}
        return answer | ({"Attributes": dict(row)} if write.get("ReturnValues") == "ALL_NEW" else {})

    def _written(self, key: Key, sound: "_Sound") -> Item | None:
        old = self.items.get(key, {})
        if sound.condition and not sound.condition.holds(old, sound.names, sound.values):
            return None
        if sound.change is None:
            row = sound.item
        elif not sound.writes.isdisjoint(("pk", "sk")):
            raise Invalid("Cannot update an attribute that is part of the key")
        else:
            row = sound.change.apply(old or sound.item, sound.names, sound.values)
        for name in _KEYS:
            if name in row and not row[name].get("S"):
                raise Invalid(f"One or more parameter values were invalid: Type mismatch for {name}")
        return row

    def _judged(
        self, writes: Sequence[Mapping[str, Any]]
    ) -> tuple[list[tuple[Key, Item | None]], list[dict[str, Any]]]:
        keys = [_key(write.get("Key") or write["Item"]) for write in writes]
        if len(set(keys)) != len(keys) or not 0 < len(keys) <= _TRANSACTION_ITEMS_MAX:
            raise _invalid(
                "transact_write_items", "Transaction request cannot include multiple operations on one item"
            )
        try:
            sound = [_sound(write) for write in writes]
        except Invalid as invalid:
            raise _invalid("transact_write_items", str(invalid)) from None
        changes: list[tuple[Key, Item | None]] = []
        reasons: list[dict[str, Any]] = []
        for key, write, checked in zip(keys, writes, sound, strict=True):
            reason: dict[str, Any] = {"Code": "None"}
            try:
                row = self._written(key, checked)
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
        return changes, reasons

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
        """Apply all but the latest `keep` changes to the index."""
        known = max(0, len(self._unlisted) - keep)
        for key, row in self._unlisted[:known]:
            before = self._listed_in.pop(key, None)
            if before is not None:
                del self._listed[before][key]
            if row and all(
                "S" in row.get(name, ()) for name in ("gsi1pk", "gsi1sk")
            ):  # the index needs both keys
                partition = self._listed_in[key] = row["gsi1pk"]["S"]
                self._listed.setdefault(partition, {})[key] = row
        del self._unlisted[:known]


@dataclass(frozen=True)
class Pages:
    read: Callable[..., dict[str, Any]]

    def paginate(
        self,
        PaginationConfig: Mapping[str, int] | None = None,  # noqa: N803
        **parameters: Any,
    ) -> Iterator[dict[str, Any]]:
        if PaginationConfig:
            parameters["Limit"] = PaginationConfig["PageSize"]
        while True:
            page = self.read(**parameters)
            yield page
            if not (start := page.get("LastEvaluatedKey")):
                return
            parameters["ExclusiveStartKey"] = start


def error(operation: str, code: str, message: str, **more: Any) -> ClientError:
    http = 500 if code == "InternalServerError" else 400
    response = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": http},
        **more,
    }
    kind = ConditionalCheckFailed if code == "ConditionalCheckFailedException" else ClientError
    return kind(response, operation)


def _invalid(operation: str, message: str) -> ClientError:
    return error(operation, "ValidationException", message)


def _sound(write: Mapping[str, Any]) -> _Sound:
    """Return the write with normal values. Raises Invalid for a fault independent of rows."""
    if not write.keys() <= _KNOWN:
        raise TypeError(f"not known here: {sorted(write.keys() - _KNOWN)}")
    for name in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        if name in write and not write[name]:
            raise Invalid(f"{name} must not be empty")
    asks, changes = write.get("ConditionExpression"), write.get("UpdateExpression")
    names = write.get("ExpressionAttributeNames", {})
    values = {name: normal(value) for name, value in write.get("ExpressionAttributeValues", {}).items()}
    item = write.get("Key") or {name: normal(value) for name, value in write["Item"].items()}
    writes = expressions.check(names, values, asks=asks, changes=changes)
    for name in _KEYS:
        if name in item and not item[name].get("S"):
            raise Invalid(f"One or more parameter values are not valid: {name} must be a text, and not empty")
    return _Sound(
        names,
        values,
        item,
        writes,
        expressions.condition(asks) if asks is not None else None,
        expressions.change(changes) if changes is not None else None,
    )


def _key(item: Item) -> Key:
    return item["pk"]["S"], item["sk"]["S"]


def _hash(key: Key) -> int:
    """Return a hash that scatters partition keys, equal in every process."""
    return crc32(key[0].encode())


def _scanned(key: Key) -> tuple[int, str, str]:
    return _hash(key), *key


def _place(entry: tuple[Key, Item]) -> tuple[bytes, Key]:
    key, item = entry
    return item["gsi1sk"]["S"].encode(), key
