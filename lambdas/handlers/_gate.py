"""The gate: a request takes its key once, whoever brings it and however often."""

from handlers import _runtime
from settlement import items, rows, steps
from settlement.request import Request, Settlement
from settlement.rows import Row
from settlement.telemetry import count


def claim(request: Request, owner: str) -> tuple[Settlement, Row]:
    """Take the request's key for the execution called `owner`, or find out who has it.

    Return the settlement that the key stands for, and its row. Raises IdempotencyConflict.
    """
    now = _runtime.now()
    settlement = steps.requested(request, _runtime.terms)
    claimed = _runtime.store.claim(items.claim(settlement, owner, now, _runtime.terms))
    settlement = steps.admitted(request, claimed)
    if steps.is_replay(claimed, owner):
        count("IdempotencyReplay")
    elif claimed["recoveries"]:
        count("ClaimTakenOver")
    else:
        count("Claimed" if claimed["claimed_at"] == rows.timestamp(now) else "ClaimRepeated")
    return settlement, claimed
