"""A day of a stack in figures.

table, the whole of it      ──▶ settlements claimed on the day ──▶ by hour, by error, the time to the end
entries of fees:X, losses:X ──▶ earned, given back, lost
CloudWatch                  ──▶ the last scheduled proof
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.instants import seconds_since
from settle.reports import queue
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import money
from settlement.core.model.status import Status
from settlement.core.model.timestamps import timestamp
from settlement.proof import pages

KINDS = ("settled", "reversed", "refused", "open")
"""The outcomes of settlements; LIMBO is open."""

_KIND = {Status.SETTLED: "settled", Status.COMPENSATED: "reversed", Status.REJECTED: "refused"}
_PERCENTS = (50, 95, 99, 100)


def parse(text: str, at: datetime) -> date:
    """Parse a day that has begun, in UTC. Raises CommandFailed."""
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError:
        raise CommandFailed(Exit.USAGE, "day: must be a day such as 2026-11-22") from None
    if day > at.date():
        raise CommandFailed(Exit.USAGE, f"day: {text} is in the future")
    return day


def describe(stack: Stack, day: date, at: datetime) -> dict[str, Any]:
    """Describe a day. Scans the whole table, without an index."""
    begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
    first, end = timestamp(begin), timestamp(begin + timedelta(days=1))
    hours = [Counter[str]() for _ in range(24)]
    statuses, refused, reversed_for, volumes = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    seconds: list[float] = []
    for row in _claimed(stack, first, end):
        status = str(row.get("status"))
        kind = _KIND.get(status, "open")  # type: ignore[call-overload]
        statuses[status] += 1
        hours[_hour(row)][kind] += 1
        if kind == "settled":
            volumes[str(row.get("currency"))] += _whole(row.get("amount"))
            seconds += _seconds(row)
        elif status == Status.REJECTED:
            refused[_error(row, "failure")] += 1
        elif "reversed_for" in row:
            reversed_for[_error(row, "reversed_for")] += 1
    return {
        "at": timestamp(at),
        "day": day.isoformat(),
        "is_over": timestamp(at) >= end,
        "stack": stack.name,
        "table": stack.outputs["TableName"],
        "count": statuses.total(),
        "statuses": _ranked(statuses),
        "hours": [{kind: hour[kind] for kind in KINDS} for hour in hours],
        "refused": _ranked(refused),
        "reversed_for": _ranked(reversed_for),
        "seconds": {f"p{percent}": _percentile(sorted(seconds), percent) for percent in _PERCENTS},
        "currencies": _currencies(stack, first, end, volumes),
        "proof": queue.last_proof(stack, at),
    }


def _claimed(stack: Stack, first: str, end: str) -> Iterable[Row]:
    return pages.scan(
        stack.store,
        FilterExpression="sk = :settlement AND claimed_at >= :first AND claimed_at < :end",
        ExpressionAttributeValues={
            ":settlement": {"S": keys.settlement("")["sk"]},
            ":first": {"S": first},
            ":end": {"S": end},
        },
    )


def _hour(row: Row) -> int:
    text = str(row["claimed_at"])[11:13]
    return int(text) if text.isascii() and text.isdigit() and int(text) < 24 else 0


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _seconds(row: Row) -> list[float]:
    try:
        since = seconds_since(row["claimed_at"], datetime.fromisoformat(str(row["finished_at"])))
    except (KeyError, ValueError):
        return []
    return [] if since is None else [since]


def _error(row: Row, name: str) -> str:
    reason = row.get(name)
    return str(reason.get("error")) if isinstance(reason, dict) else "unknown"


def _ranked(counts: Counter[str]) -> list[dict[str, Any]]:
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return [{"name": name, "count": count} for name, count in ordered]


def _percentile(ordered: Sequence[float], percent: int) -> float | None:
    return ordered[math.ceil(len(ordered) * percent / 100) - 1] if ordered else None


def _currencies(stack: Stack, first: str, end: str, volumes: Counter[str]) -> list[dict[str, Any]]:
    lines = []
    for currency, exponent in sorted(stack.config.currencies.items()):
        earned, given_back = _booked(stack, f"fees:{currency}", first, end)
        returned, lost = _booked(stack, f"losses:{currency}", first, end)
        amounts = {
            "settled": volumes[currency],
            "fees": earned,
            "fees_given_back": given_back,
            "losses": lost - returned,
        }
        if any(amounts.values()):
            shown = {name: money.render(amount, exponent) for name, amount in amounts.items()}
            lines.append({"currency": currency, **shown})
    return lines


def _booked(stack: Stack, account: str, first: str, end: str) -> tuple[int, int]:
    sums = Counter[str]()
    for partition in keys.entry_partitions(account):
        for entry in stack.store.entries(partition, first, end):
            sums[str(entry.get("side"))] += _whole(entry.get("amount"))
    return sums["credit"], sums["debit"]
