"""Reject a settlement whose hold was refused."""

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
    """Claim the key as REJECTED, or reject the queue's claim. Return the outcome.

    Raises StepFenced if something is held after all. Raises AlreadyClaimed for another execution's claim, and
    IdempotencyConflict.
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
