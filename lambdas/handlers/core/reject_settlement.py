"""RejectSettlement: refuse a settlement for good whose hold was refused."""

from typing import Any

from handlers import _dependencies
from handlers.core import _request
from settlement.core.ledger import forward, reversal
from settlement.core.model.errors import AlreadyClaimed
from settlement.core.model.status import Status
from settlement.core.model.timestamps import timestamp
from settlement.core.policy import outcome, steps
from settlement.core.telemetry import count, observed


@observed("reject")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the outcome of the rejected settlement.

    The refused hold has claimed nothing, so the key is claimed here, as REJECTED; or else what the queue has
    claimed for this execution is rejected. Raises StepFenced if something is held after all; AlreadyClaimed
    if another execution has claimed the key, and IdempotencyConflict if that was with other content.
    """
    request, execution = _request.parse(event), event["execution"]
    now, config = _dependencies.now(), _dependencies.config
    failure = outcome.failure("hold", event["error"])
    settlement = steps.settlement_for(request, config)
    state = _dependencies.store.claim(reversal.tombstone(settlement, execution, failure, now))
    settlement = steps.verify_same_request(request, state)
    if state.owner != execution:
        raise AlreadyClaimed(settlement.key, state.status)
    if state.status is not Status.REJECTED:
        state = _dependencies.store.update(forward.reject(settlement, failure, now, owner=execution))
    if state.finished_at == timestamp(now):  # and not by an earlier call
        count("Rejected")
    return outcome.of_state(state, config, replayed=False)
