"""RefundFee: give the fee back to the escrow."""

from typing import Any

from handlers import _reversal
from settlement.adapters.telemetry import observed
from settlement.model.status import Step


@observed(Step.FEE.reversal)
def handler(event: dict[str, Any], context: object) -> None:
    """Commit the fee's reversal. Raises StepFenced."""
    _reversal.reverse(Step.FEE, event)
