"""Reads the settlements that the table's index lists.

    index, lazily          table, 100 rows a call          answer
    shard 0 ──┐
      …       ├─ by time ──▶ is it still so? ── the rows ──▶ the first `limit`, and whether there are more
    shard 7 ──┘

The index may lag, so the rows decide. Both are read only as far as needed.
"""

import heapq
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from settle.stack import Stack
from settlement.core.ledger import keys as ledger_keys
from settlement.core.ledger.keys import Row
from settlement.core.store import batch
from settlement.core.store.wire import from_wire

BATCH_MAX = batch.BATCH_MAX

NO_VALUES: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Found:
    """Rows that an index lists, whether there are `more`, and keys of `unreadable` rows with reasons."""

    rows: list[Row]
    more: bool
    unreadable: Sequence[tuple[Row, str]] = ()


def listed(stack: Stack, partitions: Sequence[str], left: Collection[str], limit: int | None) -> Found:
    """Return the first `limit` settlements, or all, that the index lists in `partitions`, by sort key.

    The index may lag behind rows. So settlements with a status in `left` are omitted.
    """
    enough = sys.maxsize if limit is None else limit + 1
    client, found, aside = stack.client("dynamodb"), list[Row](), list[tuple[Row, str]]()
    shards = [_entries(stack, client, partition) for partition in partitions]
    keys = _once_each(heapq.merge(*shards, key=lambda key: key["gsi1sk"]))
    while len(found) < enough and (due := list(islice(keys, min(BATCH_MAX, enough - len(found))))):
        rows = batch.read(stack.store, due, lambda key, reason: aside.append((key, reason)))
        found += (row for row in rows if str(row.get("status")) not in left)
    found.sort(key=lambda row: (str(row.get("gsi1sk")), row["pk"]))
    return Found(found[:limit], limit is not None and len(found) > limit, aside)


def between(stack: Stack, partition: str, since: str, until: str) -> Iterator[Row]:
    """Return a partition's keys from sort key `since` to before `until`."""
    times = {":since": {"S": since}, ":until": {"S": until}}
    found = _entries(
        stack, stack.client("dynamodb"), partition, " AND gsi1sk BETWEEN :since AND :until", times
    )
    return (key for key in found if key["gsi1sk"] < until)


def _entries(
    stack: Stack, client: Any, partition: str, times: str = "", values: Mapping[str, Any] = NO_VALUES
) -> Iterator[Row]:
    answer = client.get_paginator("query").paginate(
        TableName=stack.outputs["TableName"],
        IndexName=ledger_keys.INDEX,
        KeyConditionExpression=f"gsi1pk = :partition{times}",
        ProjectionExpression="pk, sk, gsi1sk",
        ExpressionAttributeValues={":partition": {"S": partition}, **values},
        PaginationConfig={"PageSize": BATCH_MAX},
    )
    return (from_wire(item) for page in answer for item in page["Items"])


def _once_each(keys: Iterator[Row]) -> Iterator[Row]:
    """Drop repeated keys: DynamoDB refuses them in one call.

    The index lists a row twice while the row moves.
    """
    seen = set()
    for key in keys:
        if key["pk"] not in seen:
            seen.add(key["pk"])
            yield key
