from collections.abc import Callable, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from settlement.core.ledger.keys import Row
from settlement.core.model.errors import StoreUnavailable
from settlement.core.model.stored import MalformedRow
from settlement.core.store.dynamodb import Store, pause, plain

BATCH_MAX = 100
"""DynamoDB's limit for one call."""

TRIES_MAX = 8
"""Maximum calls for one batch. Each call may leave rows unread."""


Unreadable = Callable[[Row, str], None]


def read(store: Store, keys: Sequence[Row], unreadable: Unreadable | None = None) -> list[Row]:
    """Read the existing rows of these distinct keys, in any order. Raises StoreUnavailable.

    A row with a fractional number goes to `unreadable`. Without `unreadable`, it raises MalformedRow.
    """
    found: list[Row] = []
    for start in range(0, len(keys), BATCH_MAX):
        for item in _batch(store, keys[start : start + BATCH_MAX]):
            try:
                found.append(plain(item))
            except MalformedRow as malformed:
                if unreadable is None:
                    raise
                unreadable({name: item[name]["S"] for name in ("pk", "sk")}, str(malformed))
    return found


def _batch(store: Store, keys: Sequence[Row]) -> list[dict[str, Any]]:
    client, table = store.client, store.table_name
    wanted: Any = {
        table: {
            "Keys": [{name: {"S": key[name]} for name in ("pk", "sk")} for key in keys],
            "ConsistentRead": True,
        }
    }
    found: list[dict[str, Any]] = []
    for tries in range(1, TRIES_MAX + 1):
        try:
            answer = client.batch_get_item(RequestItems=wanted)
        except (ClientError, BotoCoreError) as failed:
            raise StoreUnavailable(f"DynamoDB gave no rows: {failed}") from None
        found += answer["Responses"].get(table, ())
        wanted = answer.get("UnprocessedKeys")
        if not wanted:
            return found
        pause(tries)
    raise StoreUnavailable(f"DynamoDB left rows unread in each of {TRIES_MAX} tries")
