"""The gate: a request takes its key once, whoever brings it and however often."""

from typing import Any

from handlers import _runtime
from settlement import items, request, steps
from settlement.request import Request, Settlement
from settlement.rows import Row
from settlement.telemetry import count, logger


def parse(raw: Any, source: str) -> Request:
    """Check a client's request; where the stage allows a missing key, it gets one that is made of `source`.

    Raises InvalidRequest.
    """
    named = request.named(raw, source, _runtime.terms)
    if named is not raw:
        count("IdempotencyKeyMissing")
        logger.append_keys(key=named["key"])
    return request.parse_request(named, _runtime.terms)


def claim(asked: Request, owner: str) -> tuple[Settlement, Row]:
    """Take the request's key for the execution called `owner`, or find out who has it.

    Return the settlement that the key stands for, and its row. Raises IdempotencyConflict.
    """
    settlement = steps.requested(asked, _runtime.terms)
    claimed = _runtime.store.claim(items.claim(settlement, owner, _runtime.now(), _runtime.terms))
    settlement = steps.admitted(asked, claimed)
    if steps.is_replay(claimed, owner):
        count("IdempotencyReplay")
    else:
        count("ClaimTakenOver" if claimed["recoveries"] else "Claimed")
    return settlement, claimed
