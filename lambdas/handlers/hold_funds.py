"""HoldFunds: move the amount from the payer into the settlement's escrow."""

from typing import Any

from handlers import _runtime
from settlement import outcome, steps
from settlement.request import parse_settlement
from settlement.telemetry import observed


@observed("hold")
def handler(event: dict[str, Any], context: object) -> dict[str, str]:
    """Return the hold's journal entry. Raises the payer's refusals, StepFenced and DeadlineExceeded."""
    settlement = parse_settlement(event["settlement"], _runtime.terms)
    entry = _runtime.store.post(steps.hold(settlement, _runtime.now()))
    return outcome.of_entry(entry, _runtime.terms)
