"""ReclaimFunds: take the net amount back from the payee."""

from typing import Any

from handlers import _runtime
from settlement import compensation, outcome
from settlement.request import parse_settlement
from settlement.status import Step
from settlement.telemetry import observed


@observed(Step.RELEASE.reversal)
def handler(event: dict[str, Any], context: object) -> dict[str, str]:
    """Return the reversal's journal entry, empty where it is on record already.

    Raises the payee's refusals, such as InsufficientFunds for what they have spent, and StepFenced.
    """
    settlement = parse_settlement(event["settlement"], _runtime.terms)
    posting = compensation.undo(settlement, Step.RELEASE, event["steps"], event["reversed"], _runtime.now())
    return outcome.of_entry(_runtime.store.post(posting), _runtime.terms) if posting else {}
