"""ReleaseFunds: move the net amount from the settlement's escrow to the payee."""

from typing import Any

from handlers import _runtime
from settlement import outcome, steps
from settlement.request import parse_settlement
from settlement.telemetry import observed


@observed("release")
def handler(event: dict[str, Any], context: object) -> dict[str, str]:
    """Return the release's journal entry. Raises the payee's refusals, StepFenced and DeadlineExceeded."""
    settlement = parse_settlement(event["settlement"], _runtime.terms)
    entry = _runtime.store.post(steps.release(settlement, _runtime.terms, _runtime.now()))
    return outcome.of_entry(entry, _runtime.terms)
