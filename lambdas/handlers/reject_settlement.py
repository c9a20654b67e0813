"""RejectSettlement: refuse a settlement for good whose hold was refused."""

from typing import Any

from handlers import _dependencies
from settlement.adapters.telemetry import count, observed
from settlement.ledger import forward
from settlement.model.request import parse_settlement
from settlement.model.timestamps import timestamp
from settlement.policy import outcome


@observed("reject")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the outcome of the rejected settlement. Raises StepFenced if something is held after all."""
    settlement, now = parse_settlement(event["settlement"], _dependencies.config), _dependencies.now()
    failure = outcome.failure("hold", event["error"])
    state = _dependencies.store.update(forward.reject(settlement, failure, now))
    if state.finished_at == timestamp(now):  # and not by an earlier call
        count("Rejected")
    return outcome.of_state(state, _dependencies.config, replayed=False)
