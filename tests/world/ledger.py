import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import from_wire, to_wire
from settlement.retention.expiry import with_expiry
from settlement.signing.signature import RowKeys
from tests.world.environment import NOW
from tests.world.memory_dynamodb import MemoryDynamoDb
from tests.world.openings import open_order

ROW_KEYS = RowKeys.from_text(os.environ["ROW_KEYS"])


@dataclass(frozen=True)
class Ledger:
    """A table, with a store and with methods that write rows unconditionally."""

    client: Any
    table_name: str
    store: Store

    def open(self, account: str, available: int, currency: str = "EUR", **extra: Any) -> None:
        """Put an account's row; `extra` may be `limbo_cases`."""
        opened = {"opened_at": timestamp(NOW), "last_order": open_order(account).key}
        self.put({**keys.account(account), "available": available, "currency": currency, **opened, **extra})

    def put(self, row: keys.Row) -> None:
        """Put a row unconditionally and unsigned."""
        self.client.put_item(TableName=self.table_name, Item=to_wire(row))

    def delete(self, key: keys.Row) -> None:
        """Delete a row, which production code cannot do."""
        wire = {name: {"S": value} for name, value in key.items()}
        self.client.delete_item(TableName=self.table_name, Key=wire)

    def row(self, key: keys.Row) -> keys.Row | None:
        """Return a raw row, valid or not."""
        wire = {name: {"S": key[name]} for name in ("pk", "sk")}
        found = self.client.get_item(TableName=self.table_name, Key=wire, ConsistentRead=True)
        return from_wire(found["Item"]) if "Item" in found else None

    def rows(self) -> list[keys.Row]:
        pages = self.client.get_paginator("scan").paginate(TableName=self.table_name, ConsistentRead=True)
        found = [from_wire(item) for page in pages for item in page["Items"]]
        return sorted(found, key=lambda row: (row["pk"], row["sk"]))


def in_memory() -> Ledger:
    """Return a ledger in memory, for tests that are not about DynamoDB."""
    return over(MemoryDynamoDb(), "table-in-memory")


def over(client: Any, table_name: str) -> Ledger:
    """Return a ledger over an existing table; it does not sign."""
    return Ledger(client, table_name, Store(client, table_name, pause=lambda failed_tries: None))


def adds(row_keys: RowKeys | None = ROW_KEYS, days: int | None = None) -> tuple[Callable[[Row], Row], ...]:
    """Return the functions that add an expiry (after `days`) to entries, and signatures to rows."""
    expires = partial(with_expiry, retention_days=days)
    return (expires, row_keys.signed) if row_keys else (expires,)


def signing(ledger: Ledger, row_keys: RowKeys = ROW_KEYS) -> Ledger:
    """Return the ledger with a store that signs rows, as a function's store does."""
    store = Store(ledger.client, ledger.table_name, ledger.store._pause, adds(row_keys))
    return replace(ledger, store=store)
