"""VoidHold: give the amount back to the payer, which finishes the settlement."""

from typing import Any

from handlers import _reversal
from settlement.adapters.telemetry import observed
from settlement.model.status import Step


@observed(Step.HOLD.reversal)
def handler(event: dict[str, Any], context: object) -> None:
    """Commit the hold's reversal. Raises the payer's refusals and StepFenced."""
    _reversal.reverse(Step.HOLD, event)
