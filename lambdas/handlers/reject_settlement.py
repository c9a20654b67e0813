"""RejectSettlement: refuse for good what could not be held."""

from typing import Any

from handlers import _runtime
from settlement import items, outcome, rows
from settlement.request import parse_settlement
from settlement.telemetry import count, observed


@observed("reject")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the outcome of the rejected settlement. Raises StepFenced where something is held after all."""
    settlement = parse_settlement(event["settlement"], _runtime.terms)
    failure = outcome.failure("hold", event["error"])
    now = _runtime.now()
    row = _runtime.store.update(items.reject(settlement, failure, now))
    if row["finished_at"] == rows.timestamp(now):  # and not by an earlier call
        count("Rejected")
    return outcome.of_settlement(settlement.key, row, _runtime.terms, replayed=False)
