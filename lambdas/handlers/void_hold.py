"""VoidHold: give the amount back to the payer, which finishes the settlement."""

from typing import Any

from handlers import _runtime
from settlement import compensation, outcome
from settlement.request import parse_settlement
from settlement.status import Step
from settlement.telemetry import observed


@observed(Step.HOLD.reversal)
def handler(event: dict[str, Any], context: object) -> dict[str, str]:
    """Return the reversal's journal entry, empty where it is on record already.

    Raises the payer's refusals, and StepFenced.
    """
    settlement = parse_settlement(event["settlement"], _runtime.terms)
    posting = compensation.undo(settlement, Step.HOLD, event["steps"], event["reversed"], _runtime.now())
    return outcome.of_entry(_runtime.store.post(posting), _runtime.terms) if posting else {}
