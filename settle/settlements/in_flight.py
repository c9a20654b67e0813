"""Lists settlements from raw rows, so malformed ones are included."""

import heapq
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from settle.instants import seconds_since
from settle.settlements import aside
from settle.settlements.aside import UNREADABLE, Line
from settle.settlements.index import Found, listed
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import money
from settlement.core.model.state import SettlementState
from settlement.core.model.status import FINISHED, Status, Step
from settlement.core.model.stored import MalformedRow
from settlement.core.model.timestamps import timestamp
from settlement.proof import pages

_PROGRESS = ("key", "status", "steps", "amount", "currency", "owner", "owner_epoch")
IN_FLIGHT: tuple[str, ...] = (*_PROGRESS, "since", "in_review", "recover_at", "deadline_at")

CLAIMED: tuple[str, ...] = (*_PROGRESS, "claimed_at", "finished_at")


def in_flight(stack: Stack, limit: int) -> Found:
    shards = [keys.in_flight_partition(shard) for shard in range(keys.IN_FLIGHT_SHARDS)]
    return listed(stack, shards, {*FINISHED, Status.LIMBO}, limit)


def claimed_since(stack: Stack, since: datetime, limit: int) -> Found:
    """Return settlements claimed since an instant, oldest first. Scans the whole table."""
    found = pages.scan(
        stack.store,
        FilterExpression="sk = :settlement AND claimed_at >= :since",
        ExpressionAttributeValues={
            ":settlement": {"S": keys.settlement("")["sk"]},
            ":since": {"S": timestamp(since)},
        },
    )
    oldest = heapq.nsmallest(limit + 1, found, key=lambda row: (row["claimed_at"], row["pk"]))
    return Found(oldest[:limit], len(oldest) > limit)


def changed_since(stack: Stack, since: datetime) -> list[str]:
    """Return keys of settlements changed since an instant. Scans the whole table.

    Rows lack the time of a reversal in part, so every settlement with one is included.
    """
    found = pages.scan(
        stack.store,
        FilterExpression="sk = :settlement AND (finished_at >= :since OR attribute_not_exists(finished_at)"
        " OR attribute_exists(reversed_in_part))",
        ExpressionAttributeValues={
            ":settlement": {"S": keys.settlement("")["sk"]},
            ":since": {"S": timestamp(since)},
        },
    )
    return sorted(keys.subject(row)[1] for row in found)


def in_flight_lines(stack: Stack, found: Found) -> list[Line]:
    left = [aside.line(IN_FLIGHT, row, reason, **_EMPTY) for row, reason in found.unreadable]
    return [describe_in_flight(stack, row) for row in found.rows] + left


def claimed_lines(stack: Stack, found: Found) -> list[Line]:
    return [describe_claimed(stack, row) for row in found.rows]


_EMPTY: Line = {"steps": [], "in_review": False}


def describe_in_flight(stack: Stack, row: Row) -> Line:
    """Describe a settlement in flight. `since` is the last start's time; in review, the claim's."""
    row, unreadable = _sound(stack, row)
    in_review, claimed_at = "review" in row, row.get("claimed_at")
    return {
        **_progress(stack, row),
        "since": claimed_at if in_review else row.get("in_flight_since", claimed_at),
        "in_review": in_review,
        "recover_at": row.get("gsi1sk"),
        "deadline_at": row.get("deadline_at"),
        **unreadable,
    }


def _sound(stack: Stack, row: Row) -> tuple[Row, Line]:
    try:
        SettlementState.from_row(row).settlement.exponent(stack.config)
    except MalformedRow as malformed:
        kept = {name: row[name] for name in row if aside.is_sound(name, row[name])}
        return kept, {UNREADABLE: str(malformed)}
    return row, {}


def behind_seconds(lines: Sequence[dict[str, Any]], at: datetime) -> int:
    due = min((one["recover_at"] for one in lines if one["recover_at"]), default=None)
    return max(0, int(seconds_since(due, at) or 0))


def describe_claimed(stack: Stack, row: Row) -> Line:
    row, unreadable = _sound(stack, row)
    times = {name: row.get(name) for name in ("claimed_at", "finished_at")}
    return _progress(stack, row) | times | unreadable


def _progress(stack: Stack, row: Row) -> dict[str, Any]:
    amount, exponent = row.get("amount"), stack.config.currencies.get(row.get("currency", ""))
    unknown = amount is None or exponent is None
    return {
        "key": keys.subject(row)[1],
        "status": row.get("status"),
        "steps": [step.value for step in Step if step.slot in row],
        "amount": None if unknown else money.render(amount, exponent),  # type: ignore[arg-type]
        "currency": row.get("currency"),
        "owner": row.get("owner"),
        "owner_epoch": row.get("owner_epoch"),
    }
