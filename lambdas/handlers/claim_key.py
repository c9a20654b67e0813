"""ClaimKey: check the request and take its key, or find out who has it."""

from typing import Any

from handlers import _runtime
from settlement import items, steps
from settlement.request import parse_request
from settlement.telemetry import count, observed


@observed("claim")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the canonical settlement, and whether it is `replayed`: not this execution's to drive.

    Raises InvalidRequest and IdempotencyConflict, of which neither leaves a trace in the table.
    """
    owner = event["execution"]
    request = parse_request(event["settlement"], _runtime.terms)
    settlement = steps.requested(request, _runtime.terms)
    claimed = _runtime.store.claim(items.claim(settlement, owner, _runtime.now(), _runtime.terms))
    settlement = steps.admitted(request, claimed)
    replayed = steps.is_replay(claimed, owner)
    if replayed:
        count("IdempotencyReplay")
    return {
        "settlement": settlement.to_wire(_runtime.terms),
        "claimed_at": claimed["claimed_at"],
        "replayed": replayed,
        "recoveries": claimed["recoveries"],
    }
