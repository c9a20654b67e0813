"""ClaimKey: check the request and claim its key, or find the earlier claim."""

from typing import Any

from handlers import _claim, _dependencies
from settlement.adapters.telemetry import count, logger, observed
from settlement.model.request import parse_request, with_minted_key
from settlement.policy import steps


@observed("claim")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the canonical settlement, and whether it is `replayed`: not for this execution to run.

    An execution that recovery or a verdict has made the owner resumes the settlement after its last step.
    Raises InvalidRequest and IdempotencyConflict, neither of which leaves a trace in the table.
    """
    execution, config = event["execution"], _dependencies.config
    request = with_minted_key(event["settlement"], event["execution_arn"], config)
    if request is not event["settlement"]:
        count("IdempotencyKeyMissing")
        logger.append_keys(key=request["key"])
    settlement, claimed = _claim.claim(parse_request(request, config), execution)
    return {
        "settlement": settlement.to_wire(config),
        "claimed_at": claimed.claimed_at,
        "replayed": steps.is_replay(claimed, execution),
        "owner_epoch": claimed.owner_epoch,
    }
