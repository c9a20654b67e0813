from datetime import UTC, datetime
from typing import Any

from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.model.stored import MalformedRow
from settlement.http.circuit import State
from settlement.kyc import circuit as kyc_circuit

UNREADABLE = "UNREADABLE"
"""The state of a circuit whose row was changed by hand."""


def status(stack: Stack) -> dict[str, Any]:
    """Describe the KYC circuit. Times are in UTC. Without a row, the circuit is closed.

    `failures`: payments without an answer, less the reported answers.
    """
    nothing = dict.fromkeys(("since", "failures", "last_failure", "last_probe"))
    unreadable = {"circuit": kyc_circuit.CIRCUIT.name, "state": UNREADABLE, **nothing}
    try:
        row = stack.store.read(keys.circuit(kyc_circuit.CIRCUIT.name)) or {}
    except MalformedRow:
        return unreadable
    state = row.get("state", State.CLOSED.value)
    times = [row.get(name) for name in ("probed_at", "opened_at", "failed_at")]
    if state not in list(State) or not all(type(one) is int for one in times if one is not None):
        return unreadable
    probed_at = row.get("probed_at")
    return {
        "circuit": kyc_circuit.CIRCUIT.name,
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
