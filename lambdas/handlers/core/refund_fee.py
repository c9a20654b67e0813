"""Give the fee back to the escrow."""

from typing import Any

from handlers.core import _reversal
from settlement.core.model.status import Step
from settlement.core.telemetry import observed


@observed(Step.FEE.reversal)
def handler(event: dict[str, Any], context: object) -> None:
    """Commit the fee's reversal. Raises StepFenced."""
    _reversal.reverse(Step.FEE, event)
