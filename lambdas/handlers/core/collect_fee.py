"""Move the rest of the escrow to the fees. This finishes the settlement."""

from typing import Any

from handlers import _dependencies
from settlement.core.model.request import parse_settlement
from settlement.core.model.state import SettlementState
from settlement.core.model.timestamps import timestamp
from settlement.core.policy import outcome, steps
from settlement.core.telemetry import observed


@observed("fee")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Commit the fee. Return the outcome: SETTLED, unless a reversal began after an earlier call.

    Raises StepFenced.
    """
    settlement, claimed_at = parse_settlement(event["settlement"], _dependencies.config), event["claimed_at"]
    now = _dependencies.now()
    found: SettlementState | None = _dependencies.store.commit(steps.fee(settlement, now))
    if found:
        return outcome.of_state(found, _dependencies.config, replayed=False)
    return outcome.of_settled(
        settlement, _dependencies.config, claimed_at=claimed_at, finished_at=timestamp(now)
    )
