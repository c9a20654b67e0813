"""Claim the key, and move the amount from the payer into escrow."""

from typing import Any

from handlers import _dependencies
from handlers.core import _claim, _payee, _request
from settlement.core.model.errors import AlreadyClaimed
from settlement.core.model.status import Step
from settlement.core.policy import steps
from settlement.core.telemetry import count, observed


@observed("hold")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Commit the hold, unless an earlier call did. Return the canonical settlement.

    The queue, recovery or a verdict may have made this execution the owner. It then resumes the settlement.

    - Raises AlreadyClaimed for another owner's key.
    - Raises InvalidRequest, IdempotencyConflict and the parties' refusals. These leave no trace in the table.
    - Raises StepFenced and DeadlineExceeded.
    """
    execution, config = event["execution"], _dependencies.config
    request = _request.parse(event)
    if "key" not in event["settlement"]:
        count("IdempotencyKeyMissing")
    settlement, claimed = _claim.claim_and_hold(request, execution)
    if steps.is_replay(claimed, execution):
        raise AlreadyClaimed(settlement.key, claimed.status)
    if Step.HOLD not in claimed.steps:
        if refusal := _payee.refusal(settlement):
            raise refusal
        _dependencies.store.commit(steps.hold(settlement, _dependencies.now()))
    return {
        "settlement": settlement.to_wire(config),
        "claimed_at": claimed.claimed_at,
        "owner_epoch": claimed.owner_epoch,
        "nonce": _dependencies.nonce(),  # for the compensation's name: the same in each try to start it
    }
