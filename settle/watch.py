"""What the settlements do right now: pictures for whoever watches, one after the other."""

import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from settle import instants, kyc, limbo, listing
from settle.failures import CommandFailed
from settle.stack import Stack
from settlement import rows
from settlement.errors import SettlementError
from settlement.rows import Row
from settlement.status import Status, Step

LOOKED_AT_MAX = 100
"""Settlements in flight, and in LIMBO, that a picture looks at; of more it says so."""

_PARTS = ("in_flight", "limbo", "circuit")


def pictures(stack: Stack, every_seconds: int) -> Iterator[dict[str, Any]]:
    """A picture every so often, without an end. A look that fails makes a picture of its error alone."""
    while True:
        at = instants.now()
        try:
            yield look(stack, at)
        except (CommandFailed, SettlementError, ClientError, BotoCoreError, OSError) as failed:
            yield {"at": rows.timestamp(at)} | dict.fromkeys(_PARTS) | {"error": _told(failed)}
        time.sleep(every_seconds)


def look(stack: Stack, at: datetime) -> dict[str, Any]:
    """One picture: what is in flight, what is in LIMBO, and the circuit around the KYC provider."""
    return {
        "at": rows.timestamp(at),
        "in_flight": _in_flight(stack, rows.timestamp(at)),
        "limbo": _limbo(stack),
        "circuit": kyc.status(stack),
        "error": None,
    }


def _in_flight(stack: Stack, at: str) -> dict[str, Any]:
    """Of what is due first, if there is more. One in review rests, and is never the oldest here."""
    found = listing.in_flight(stack, LOOKED_AT_MAX)
    shown = [listing.describe_in_flight(stack, row) for row in found.rows]
    by_status = Counter({Status.PROCESSING.value: 0, Status.COMPENSATING.value: 0})
    by_status.update(line["status"] or "unknown" for line in shown)
    moving = [line for line in shown if not line["in_review"]]
    return {
        "count": len(shown),
        "more": found.more,
        "by_status": dict(by_status),
        "in_review": len(shown) - len(moving),
        "due": sum(line["recover_at"] <= at for line in shown),
        "overdue": sum(_is_overdue(row, at) for row in found.rows),
        "oldest": _oldest(moving),
    }


def _limbo(stack: Stack) -> dict[str, Any]:
    cases, more = limbo.first_open(stack, LOOKED_AT_MAX)
    at_risk: dict[str, Decimal] = {}
    for case in cases:
        at_risk[case["currency"]] = at_risk.get(case["currency"], Decimal()) + Decimal(case["amount_at_risk"])
    return {
        "count": len(cases),
        "more": more,
        "oldest": _oldest(cases),
        "at_risk": {currency: str(amount) for currency, amount in sorted(at_risk.items())},
    }


def _is_overdue(row: Row, at: str) -> bool:
    """Whether a settlement's time is over. What is released, or is being reversed, has no deadline."""
    released = Step.RELEASE in row.get("steps", ())
    return row.get("status") == Status.PROCESSING and not released and row.get("deadline_at", "") <= at


def _oldest(lines: list[dict[str, Any]]) -> dict[str, Any] | None:
    oldest = min(lines, key=lambda line: line["since"] or "", default=None)
    return oldest and {"key": oldest["key"], "since": oldest["since"]}


def _told(failed: Exception) -> str:
    return str(failed) if isinstance(failed, CommandFailed) else f"{type(failed).__name__}: {failed}"
