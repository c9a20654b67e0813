"""CollectFee: move the rest of the escrow to the fees, which finishes the settlement."""

from typing import Any

from handlers import _dependencies
from settlement.adapters.telemetry import observed
from settlement.model.request import parse_settlement
from settlement.model.state import SettlementState
from settlement.model.timestamps import timestamp
from settlement.policy import outcome, steps


@observed("fee")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the outcome: SETTLED, unless a settlement of an earlier call is reversed. Raises StepFenced."""
    settlement, claimed_at = parse_settlement(event["settlement"], _dependencies.config), event["claimed_at"]
    now = _dependencies.now()
    found: SettlementState | None = _dependencies.store.commit(steps.fee(settlement, now))
    if found:
        return outcome.of_state(found, _dependencies.config, replayed=False)
    return outcome.of_settled(
        settlement, _dependencies.config, claimed_at=claimed_at, finished_at=timestamp(now)
    )
