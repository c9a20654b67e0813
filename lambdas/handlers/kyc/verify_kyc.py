"""VerifyKyc: ask the KYC provider about the payment, once, and put its verdict on record."""

from typing import Any

from handlers.core import _verification
from handlers.kyc import _provider
from settlement.core.telemetry import observed

HEALTH = {"check": "health"}
"""The event of the schedule, as `infra/kyc.py` has it."""

NOW = {"check": "now"}
"""The event of a person's order, as `_probe.py` has it."""


@observed("verify")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any] | None:
    """Put the provider's approval on record: see `_verification.verify`.

    The event of a schedule or of a person's order has no settlement: it probes the circuit.
    """
    if event == HEALTH:
        _provider.check_health()
        return None
    if event == NOW:
        return _provider.probe_now()
    _verification.verify(event, context, _provider)
    return None
