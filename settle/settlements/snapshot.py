import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from settle import instants
from settle.exit_codes import CommandFailed, message_of
from settle.kyc import circuit
from settle.orders import limbo
from settle.settlements import aside, in_flight
from settle.stack import Stack
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import SettlementError
from settlement.core.model.status import Status, Step
from settlement.core.model.stored import MalformedRow
from settlement.core.model.timestamps import timestamp

LOOKED_AT_MAX = 100
"""Maximum settlements in flight, and maximum cases, per snapshot."""

_PARTS = ("in_flight", "limbo", "circuit")


def snapshots(stack: Stack, every_seconds: int) -> Iterator[dict[str, Any]]:
    """Yield snapshots for ever. After a failed read, a snapshot has only the error."""
    while True:
        at = instants.now()
        try:
            yield look(stack, at)
        except (CommandFailed, SettlementError, MalformedRow, ClientError, BotoCoreError, OSError) as failed:
            yield (
                {"at": timestamp(at), "stack": stack.name}
                | dict.fromkeys(_PARTS)
                | {"error": message_of(failed)}
            )
        time.sleep(every_seconds)


def look(stack: Stack, at: datetime) -> dict[str, Any]:
    return {
        "at": timestamp(at),
        "stack": stack.name,
        "in_flight": _in_flight(stack, at),
        "limbo": _limbo(stack),
        "circuit": circuit.status(stack),
        "error": None,
    }


def _in_flight(stack: Stack, now: datetime) -> dict[str, Any]:
    at = timestamp(now)
    found = in_flight.in_flight(stack, LOOKED_AT_MAX)
    shown = in_flight.in_flight_lines(stack, found)
    by_status = Counter({Status.PROCESSING.value: 0, Status.COMPENSATING.value: 0})
    by_status.update(line["status"] or "unknown" for line in shown)
    moving = [line for line in shown if not line["in_review"]]
    return {
        "count": len(shown),
        "more": found.more,
        "by_status": dict(by_status),
        "in_review": len(shown) - len(moving),
        "due": sum((line["recover_at"] or at) <= at for line in shown),
        "overdue": sum(_is_overdue(row, at) for row in found.rows),
        "unreadable": [line["unreadable"] for line in aside.of(shown)],
        "oldest": _oldest(moving),
        "behind_seconds": in_flight.behind_seconds(shown, now),
    }


def _limbo(stack: Stack) -> dict[str, Any]:
    found = limbo.open_states(stack, LOOKED_AT_MAX)
    cases = limbo.lines(stack, found)
    at_risk: dict[str, Decimal] = {}
    for case in cases:
        if case["currency"] is None:
            continue
        at_risk[case["currency"]] = at_risk.get(case["currency"], Decimal()) + Decimal(case["amount_at_risk"])
    return {
        "count": len(cases),
        "proposed": sum(case["proposed"] is not None for case in cases),
        "more": found.more,
        "oldest": _oldest(cases),
        "unreadable": [case["unreadable"] for case in aside.of(cases)],
        "at_risk": {currency: str(amount) for currency, amount in sorted(at_risk.items())},
    }


def _is_overdue(row: Row, at: str) -> bool:
    released = Step.RELEASE.slot in row
    return row.get("status") == Status.PROCESSING and not released and str(row.get("deadline_at", "")) <= at


def _oldest(lines: list[dict[str, Any]]) -> dict[str, Any] | None:
    oldest = min(lines, key=lambda line: line["since"] or "", default=None)
    return oldest and {"key": oldest["key"], "since": oldest["since"]}
