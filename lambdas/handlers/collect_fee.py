"""CollectFee: move the rest of the escrow to the fees, which finishes the settlement."""

from typing import Any

from handlers import _dependencies
from settlement.adapters.telemetry import observed
from settlement.model.request import parse_settlement
from settlement.policy import outcome, steps


@observed("fee")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the outcome of the settled settlement. Raises StepFenced."""
    settlement, claimed_at = parse_settlement(event["settlement"], _dependencies.config), event["claimed_at"]
    entry = _dependencies.store.commit(steps.fee(settlement, _dependencies.now()))
    return outcome.of_settled(
        settlement, _dependencies.config, claimed_at=claimed_at, finished_at=entry["posted_at"]
    )
