"""How the circuit around the KYC provider stands."""

from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools.utilities.circuit_breaker import CircuitState

from settle.stack import Stack
from settlement import breaker, rows


def status(stack: Stack) -> dict[str, Any]:
    """The circuit's state, since when, the failures that it counted while closed, and its last probe; UTC.

    A circuit without a record is closed: nothing has failed, or not for so long that it is forgotten.
    """
    row = stack.store.read(rows.circuit_key(breaker.CIRCUIT)) or {}
    state = row.get("state", CircuitState.CLOSED.value)
    probed_at = row.get("probed_at")
    return {
        "circuit": breaker.CIRCUIT,
        "state": state,
        "since": _time(row.get("opened_at") if state == CircuitState.OPEN else probed_at),
        "failures": row.get("failure_count", 0),
        "last_failure": _time(row.get("failed_at", row.get("opened_at"))),
        "last_probe": _time(probed_at),
    }


def _time(seconds: int | None) -> str | None:
    return (
        None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    )
