"""VerifyKyc: record the verdict on payer and payee."""

from typing import Any

from handlers import _runtime
from settlement import kyc, outcome, steps
from settlement.request import parse_settlement
from settlement.telemetry import observed


@observed("verify")
def handler(event: dict[str, Any], context: object) -> dict[str, str]:
    """Return the verdict's journal entry. Raises StepFenced and DeadlineExceeded."""
    settlement = parse_settlement(event["settlement"], _runtime.terms)
    entry = _runtime.store.post(steps.verify(settlement, kyc.decide(settlement), _runtime.now()))
    return outcome.of_entry(entry, _runtime.terms)
