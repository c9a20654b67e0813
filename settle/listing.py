"""Which settlements there are: what is in flight, and what was claimed since some instant.

    index, lazily          table, 100 rows a call          answer
    shard 0 ──┐
      …       ├─ by time ──▶ is it still so? ── the rows ──▶ the first `limit`, and whether there are more
    shard 7 ──┘

The index may be behind, so that it only says where to look: the rows decide. No more of either is read
than it takes to show so many, however much there is.
"""

import heapq
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from settle.failures import CommandFailed, Exit
from settle.stack import Stack
from settlement import money, rows
from settlement.compensation import FINISHED
from settlement.rows import Row
from settlement.status import Status, Step
from settlement.store import from_wire, pause

BATCH_MAX = 100
"""Rows that DynamoDB reads in one call at most, and entries of the index that are read at a time."""

TRIES_MAX = 8
"""Calls for the rows of one batch, as long as DynamoDB leaves some of them unread."""


@dataclass(frozen=True)
class Found:
    """Settlements' rows, and whether there are more than were asked for."""

    rows: list[Row]
    more: bool


def in_flight(stack: Stack, limit: int) -> Found:
    """The first `limit` settlements in flight, what is due first in front."""
    shards = [rows.in_flight_partition(shard) for shard in range(rows.IN_FLIGHT_SHARDS)]
    return _listed(stack, shards, {*FINISHED, Status.LIMBO}, limit)


def in_limbo(stack: Stack, limit: int | None = None) -> Found:
    """The first `limit` settlements in LIMBO (all, without one), the oldest case in front."""
    return _listed(stack, [rows.LIMBO], set(Status) - {Status.LIMBO}, limit)


def claimed_since(stack: Stack, since: datetime, limit: int) -> Found:
    """The first `limit` settlements that were claimed since then, the oldest in front.

    No index lists these, so this reads the whole table.
    """
    pages = stack.client("dynamodb").get_paginator("scan")
    answer = pages.paginate(
        TableName=stack.outputs["TableName"],
        FilterExpression="sk = :settlement AND claimed_at >= :since",
        ExpressionAttributeValues={
            ":settlement": {"S": rows.settlement_key("")["sk"]},
            ":since": {"S": rows.timestamp(since)},
        },
        ConsistentRead=True,
    )
    found = (from_wire(item) for page in answer for item in page["Items"])
    oldest = heapq.nsmallest(limit + 1, found, key=lambda row: (row["claimed_at"], row["pk"]))
    return Found(oldest[:limit], len(oldest) > limit)


def describe_in_flight(stack: Stack, row: Row) -> dict[str, Any]:
    """A settlement in flight: how far it is, who drives it, and when recovery looks after it."""
    return {
        **_progress(stack, row),
        "since": row.get("in_flight_since", row.get("claimed_at")),
        "in_review": "review" in row,
        "recover_at": row.get("gsi1sk"),
        "deadline_at": row.get("deadline_at"),
    }


def describe_claimed(stack: Stack, row: Row) -> dict[str, Any]:
    """A settlement of any status: how far it is or was, when it was claimed and when it ended."""
    times = {name: row.get(name) for name in ("claimed_at", "finished_at")}
    return _progress(stack, row) | times


def _progress(stack: Stack, row: Row) -> dict[str, Any]:
    """What every list has. It is complete for a broken row too: that one must be found in a list."""
    amount, exponent = row.get("amount"), stack.terms.currencies.get(row.get("currency", ""))
    unknown = amount is None or exponent is None
    return {
        "key": rows.subject(row)[1],
        "status": row.get("status"),
        "steps": [step.value for step in Step if step in row.get("steps", ())],
        "amount": None if unknown else money.render(amount, exponent),  # type: ignore[arg-type]
        "currency": row.get("currency"),
        "owner": row.get("owner"),
        "recoveries": row.get("recoveries"),
    }


def _listed(stack: Stack, partitions: Sequence[str], left: Collection[str], limit: int | None) -> Found:
    """What the index lists in `partitions` and whose row has none of the statuses `left`."""
    enough = sys.maxsize if limit is None else limit + 1
    client, found = stack.client("dynamodb"), list[Row]()
    shards = [_index(stack, client, partition) for partition in partitions]
    listed = _once_each(heapq.merge(*shards, key=lambda key: key["gsi1sk"]))
    while len(found) < enough and (batch := list(islice(listed, min(BATCH_MAX, enough - len(found))))):
        found += (row for row in _read(stack, client, batch) if row.get("status") not in left)
    found.sort(key=lambda row: (row["gsi1sk"], row["pk"]))
    return Found(found[:limit], limit is not None and len(found) > limit)


def _index(stack: Stack, client: Any, partition: str) -> Iterator[Row]:
    """What the index lists in a partition, in order, read as far as somebody asks for it."""
    answer = client.get_paginator("query").paginate(
        TableName=stack.outputs["TableName"],
        IndexName=rows.INDEX,
        KeyConditionExpression="gsi1pk = :partition",
        ProjectionExpression="pk, sk, gsi1sk",
        ExpressionAttributeValues={":partition": {"S": partition}},
        PaginationConfig={"PageSize": BATCH_MAX},
    )
    return (from_wire(item) for page in answer for item in page["Items"])


def _once_each(listed: Iterator[Row]) -> Iterator[Row]:
    """One that is moved while the index is read is met twice, and DynamoDB refuses to read a row twice."""
    seen = set()
    for key in listed:
        if key["pk"] not in seen:
            seen.add(key["pk"])
            yield key


def _read(stack: Stack, client: Any, keys: list[Row]) -> list[Row]:
    """The rows of at most 100 keys, consistently, in no order; what DynamoDB leaves out is asked again."""
    table = stack.outputs["TableName"]
    wanted: Any = {
        table: {
            "Keys": [{name: {"S": key[name]} for name in ("pk", "sk")} for key in keys],
            "ConsistentRead": True,
        }
    }
    found: list[Row] = []
    for tries in range(1, TRIES_MAX + 1):
        answer = client.batch_get_item(RequestItems=wanted)
        found += map(from_wire, answer["Responses"].get(table, ()))
        wanted = answer.get("UnprocessedKeys")
        if not wanted:
            return found
        pause(tries)
    raise CommandFailed(Exit.FAILED, f"DynamoDB: left rows unread in each of {TRIES_MAX} tries; try again")
