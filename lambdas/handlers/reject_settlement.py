"""RejectSettlement: refuse for good what could not be held."""

from typing import Any

from handlers import _runtime
from settlement import items, outcome
from settlement.request import parse_settlement
from settlement.telemetry import count, observed


@observed("reject")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the outcome of the rejected settlement. Raises StepFenced where something is held after all."""
    settlement = parse_settlement(event["settlement"], _runtime.terms)
    failure = outcome.failure("hold", event["error"])
    row = _runtime.store.update(items.reject(settlement, failure, _runtime.now()))
    count("Rejected")
    return outcome.of_settlement(settlement.key, row, _runtime.terms, replayed=False)
