"""The circuit around the KYC provider."""

from datetime import UTC, datetime
from typing import Any

from settle.stack import Stack
from settlement.adapters import kyc_circuit
from settlement.ledger import keys
from settlement.model.circuit import State


def status(stack: Stack) -> dict[str, Any]:
    """Return the circuit's state, its begin, the count of failing payments, and the last probe; UTC.

    The count is of payments without an answer, less the reported answers. A circuit without a record is
    closed: nothing has failed.
    """
    row = stack.store.read(keys.circuit(kyc_circuit.CIRCUIT)) or {}
    state = row.get("state", State.CLOSED.value)
    probed_at = row.get("probed_at")
    return {
        "circuit": kyc_circuit.CIRCUIT,
        "state": state,
        "since": _time(row.get("opened_at") if state == State.OPEN else probed_at),
        "failures": row.get("failure_count", 0),
        "last_failure": _time(row.get("failed_at", row.get("opened_at"))),
        "last_probe": _time(probed_at),
    }


def _time(seconds: int | None) -> str | None:
    return (
        None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    )
