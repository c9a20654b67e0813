"""A table in memory that counts commits and enforces DynamoDB's limits."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from settlement.core.store.dynamodb import Store
from tests.world.expressions import Item
from tests.world.ledger import adds
from tests.world.memory_dynamodb import Key, MemoryDynamoDb, error

ITEM_BYTES_MAX = 400 * 1024
KEY_BYTES_MAX = {"pk": 2_048, "sk": 1_024, "gsi1pk": 2_048, "gsi1sk": 1_024}
_INTEGER = re.compile(r"-?[0-9]{1,38}", re.ASCII)
_WRITES = ("put_item", "update_item", "transact_write_items")

Rows = dict[Key, Item]


class Table:
    """A client; `sent` counts writes that arrive, `committed` those with an effect."""

    def __init__(self, rows: Rows | None = None) -> None:
        self.sent = self.committed = 0
        self._memory = MemoryDynamoDb(committed=self._count, items=rows)

    @property
    def rows(self) -> Rows:
        return self._memory.items

    def store(self) -> Store:
        return Store(self, "table", pause=lambda failed_tries: None, adds=adds())

    def _count(self, changes: Any) -> None:
        self.committed += any(before != after for before, after in changes)

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        send = getattr(self._memory, operation)

        def call(**parameters: Any) -> Any:
            self.sent += operation in _WRITES
            _check(operation, parameters)
            return send(**parameters)

        return call


def _check(operation: str, parameters: Mapping[str, Any]) -> None:
    """Refuse invalid UTF-8, oversized rows or keys, and fractions."""
    text = json.dumps(parameters, default=sorted, ensure_ascii=False)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise error(operation, "SerializationException", "Start of structure or map found") from None
    if size > ITEM_BYTES_MAX:
        raise error(operation, "ValidationException", "Item size has exceeded the maximum allowed size")
    writes = [write for item in parameters.get("TransactItems", ()) for write in item.values()]
    for write in writes or [parameters]:
        for name, value in {**write.get("Key", {}), **write.get("Item", {})}.items():
            if len(value.get("S", "").encode()) > KEY_BYTES_MAX.get(name, ITEM_BYTES_MAX):
                raise error(operation, "ValidationException", "Size of a key has exceeded the size limit")
        for values in (write.get("Item", {}), write.get("ExpressionAttributeValues", {})):
            assert all(_INTEGER.fullmatch(value.get("N", "0")) for value in values.values()), values
