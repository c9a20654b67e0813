"""Compose the on-call alert about a settlement in LIMBO."""

from typing import Any

from handlers import _dependencies
from settlement.core.model.errors import InvalidRequest, ResolutionRefused, StepFenced
from settlement.core.model.request import parse_settlement
from settlement.core.model.status import Status
from settlement.core.policy import compensation
from settlement.core.policy.outcome import failure
from settlement.core.telemetry import observed

_REFUSED_DECISIONS = (InvalidRequest.__name__, ResolutionRefused.__name__)


@observed("alert")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the alert. Raises StepFenced outside LIMBO."""
    given, config, pager = event["state"], _dependencies.config, _dependencies.pager
    settlement = parse_settlement(given["settlement"], config)
    state = _dependencies.store.settlement(settlement.key)
    if state is None or state.status is not Status.LIMBO:
        raise StepFenced("alert", f"{settlement.key} is not in LIMBO", state.status if state else None)
    case, alerts = compensation.stuck_case(state), given["alerts"] + 1
    alert = pager.alert(state, case, config, number=alerts, execution=event["execution_arn"])
    if given.get("error", {}).get("Error", "States.Timeout") != "States.Timeout":
        reason = failure("resolve", given["error"])
        is_refused = reason["error"] in _REFUSED_DECISIONS
        alert["refused"] = reason["cause"] if is_refused else f"{reason['error']}: {reason['cause']}"
    return {
        "settlement": settlement.to_wire(config),
        "case": case.number,
        "alerts": alerts,
        "alert": alert,
        "wait_seconds": pager.wait_seconds(alerts),
    }
