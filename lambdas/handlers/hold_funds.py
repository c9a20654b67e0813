"""HoldFunds: move the amount from the payer into the settlement's escrow."""

from typing import Any

from handlers import _dependencies
from settlement.adapters.telemetry import observed
from settlement.model.request import parse_settlement
from settlement.policy import steps


@observed("hold")
def handler(event: dict[str, Any], context: object) -> None:
    """Commit the hold. Raises the payer's refusals, StepFenced and DeadlineExceeded."""
    settlement = parse_settlement(event["settlement"], _dependencies.config)
    _dependencies.store.commit(steps.hold(settlement, _dependencies.now()))
