"""ClaimKey: check the request and take its key, or find out who has it."""

from typing import Any

from handlers import _gate, _runtime
from settlement import steps
from settlement.request import named, parse_request
from settlement.telemetry import count, logger, observed


@observed("claim")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the canonical settlement, and whether it is `replayed`: not this execution's to drive.

    An execution that recovery or a verdict has made the owner drives what it finds, from where it stands.
    Raises InvalidRequest and IdempotencyConflict, of which neither leaves a trace in the table.
    """
    owner = event["execution"]
    # An execution that began before the machine was last deployed does not tell its ARN.
    request = named(event["settlement"], event.get("execution_arn", owner), _runtime.terms)
    if request is not event["settlement"]:
        count("IdempotencyKeyMissing")
        logger.append_keys(key=request["key"])
    settlement, claimed = _gate.claim(parse_request(request, _runtime.terms), owner)
    return {
        "settlement": settlement.to_wire(_runtime.terms),
        "claimed_at": claimed["claimed_at"],
        "replayed": steps.is_replay(claimed, owner),
        "recoveries": claimed["recoveries"],
    }
