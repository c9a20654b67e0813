"""The DynamoDB model with reconciliation's reads: scans, partitions, batches.

Answers pass in DynamoDB's format through the reader's client hooks.
"""

import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from settlement.core.store.dynamodb import Store
from settlement.proof import Findings, table_scan
from settlement.signing.signature import RowKeys
from tests.world import expressions
from tests.world.expressions import Item
from tests.world.ledger import adds
from tests.world.memory_dynamodb import Key, MemoryDynamoDb, Pages

Hook = Callable[..., None]
_UNITS = {"TableName": "in-memory", "CapacityUnits": 1.0}


class Readable:
    def __init__(self, table: MemoryDynamoDb, before: Callable[[], object] = lambda: None) -> None:
        self._table, self._before, self._hooks = table, before, dict[str, Hook]()
        self.meta = SimpleNamespace(
            events=SimpleNamespace(register=self._register, unregister=self._unregister)
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def get_paginator(self, operation: str) -> Pages:
        return Pages(getattr(self, operation))

    def get_item(self, **parameters: Any) -> Any:
        self._before()
        return self._table.get_item(**parameters)

    def scan(self, **parameters: Any) -> Any:
        self._before()
        if "before-parse.dynamodb.Scan" not in self._hooks:
            return self._table.scan(**parameters)
        names = parameters.get("ExpressionAttributeNames", {}).values()
        segment, segments = parameters.get("Segment", 0), parameters.get("TotalSegments", 1)
        items = list(filter(_wanted(parameters), list(self._table.items.values())[segment::segments]))
        kept = [{name: item[name] for name in item if name in names} if names else item for item in items]
        return self._read("Scan", kept)

    def query(self, **parameters: Any) -> Any:
        """Return a page of a whole partition, or delegate to the model."""
        self._before()
        if parameters["KeyConditionExpression"] != "pk = :pk":
            return self._table.query(**parameters)
        wanted = parameters["ExpressionAttributeValues"][":pk"]["S"]
        start = parameters.get("ExclusiveStartKey", {}).get("sk", {}).get("S", "")
        found = sorted(sk for pk, sk in self._table.items if pk == wanted and sk > start)
        page = found[: parameters.get("Limit")]
        answer = self._read("Query", [self._table.items[wanted, sk] for sk in page])
        if len(page) < len(found):
            answer["LastEvaluatedKey"] = {"pk": wanted, "sk": page[-1]}
        return answer

    def batch_get_item(self, *, RequestItems: Mapping[str, Any]) -> Any:  # noqa: N803
        self._before()
        ((name, wanted),) = RequestItems.items()
        addresses = [(key["pk"]["S"], key["sk"]["S"]) for key in wanted["Keys"]]
        items = [self._table.items[address] for address in addresses if address in self._table.items]
        return {"Responses": {name: [dict(item) for item in items]}}

    def describe_table(self, **_: Any) -> dict[str, Any]:
        return {"Table": {"ItemCount": len(self._table.items)}}

    def _register(self, event: str, hook: Hook, **_: Any) -> None:
        self._hooks[event] = hook

    def _unregister(self, event: str, *_: Any, **__: Any) -> None:
        self._hooks.pop(event, None)

    def _read(self, operation: str, items: list[Item]) -> Any:
        answer = {
            "status_code": 200,
            "body": json.dumps({"Items": items, "ConsumedCapacity": _UNITS}).encode(),
        }
        read: dict[str, Any] = {}
        self._hooks[f"before-parse.dynamodb.{operation}"](response_dict=answer, customized_response_dict=read)
        return read


def _wanted(parameters: Mapping[str, Any]) -> Callable[[Item], bool]:
    if not (asked := parameters.get("FilterExpression")):
        return lambda item: True
    names, values = parameters.get("ExpressionAttributeNames", {}), parameters["ExpressionAttributeValues"]
    condition = expressions.condition(asked)
    return lambda item: condition.holds(item, names, values)


def readable(
    table: MemoryDynamoDb,
    before: Callable[[], object] = lambda: None,
    row_keys: RowKeys | None = None,
    retention_days: int | None = None,
) -> Store:
    return Store(
        Readable(table, before),
        "in-memory",
        pause=lambda failed_tries: None,
        adds=adds(row_keys, retention_days),
    )


def reconciled(rows: Mapping[Key, Item], row_keys: RowKeys | None = None) -> Findings:
    table = MemoryDynamoDb(items=rows)
    return table_scan.check(readable(table), currencies={"EUR", "JPY"}, row_keys=row_keys)
