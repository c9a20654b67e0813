"""Ask the KYC provider about the payment once, and record its verdict."""

from typing import Any

from handlers.core import _verification
from handlers.kyc import _provider
from settlement.core.telemetry import observed

HEALTH = {"check": "health"}
"""The schedule's event for a health check, as in `infra/kyc.py`."""

NOW = {"check": "now"}
"""The event of a person's order to probe now, as in `_probe.py`."""


@observed("verify")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any] | None:
    if event == HEALTH:
        _provider.check_health()
        return None
    if event == NOW:
        return _provider.probe_now()
    _verification.verify(event, context, _provider)
    return None
