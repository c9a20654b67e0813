"""Give the amount back to the payer. This finishes the settlement."""

from typing import Any

from handlers import _dependencies
from handlers.core import _reversal
from settlement.core.ledger import reversal
from settlement.core.model.request import parse_settlement
from settlement.core.model.status import Step
from settlement.core.model.timestamps import timestamp
from settlement.core.telemetry import count, observed


@observed(Step.HOLD.reversal)
def handler(event: dict[str, Any], context: object) -> None:
    """Commit the hold's reversal. Without a hold, only finish the settlement.

    Raises the payer's refusals and StepFenced.
    """
    if Step.HOLD in event["steps"]:
        _reversal.reverse(Step.HOLD, event)
        return
    settlement, now = parse_settlement(event["settlement"], _dependencies.config), _dependencies.now()
    state = _dependencies.store.update(reversal.finish_unheld(settlement, now))
    if state.finished_at == timestamp(now):  # and not by an earlier call
        count("Compensated")
