"""CollectFee: move what is left in escrow to the fees, which finishes the settlement."""

from typing import Any

from handlers import _runtime
from settlement import outcome, steps
from settlement.request import parse_settlement
from settlement.telemetry import observed


@observed("fee")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the outcome of the settled settlement. Raises StepFenced."""
    settlement = parse_settlement(event["settlement"], _runtime.terms)
    claimed_at = event["claimed_at"]
    entry = _runtime.store.post(steps.fee(settlement, _runtime.now()))
    row = steps.settled(settlement, claimed_at, entry)
    return outcome.of_settlement(settlement.key, row, _runtime.terms, replayed=False)
