"""Read a person's decision on a LIMBO case, and compose the on-call notice."""

from typing import Any

from handlers import _dependencies
from settlement.core.model.errors import IdempotencyConflict, InvalidRequest, StepFenced
from settlement.core.model.orders import CASES_MAX, order_name
from settlement.core.model.request import parse_settlement
from settlement.core.policy import pager
from settlement.core.telemetry import observed


@observed("resolve")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the notice of a recorded decision.

    Only the case number in `resolution` is trusted: a holder of the task token may have written the rest.
    Raises InvalidRequest, IdempotencyConflict, or StepFenced for an undecided case.
    """
    settlement = parse_settlement(event["settlement"], _dependencies.config)
    number = _case(event["resolution"], event["case"])
    entry = _dependencies.store.evidence(settlement.key, order_name(number))
    if entry is None:
        raise StepFenced("resolve", f"case {number} of {settlement.key} is not decided")
    if entry["request_hash"] != settlement.request_hash:
        raise IdempotencyConflict.of_key(settlement.key)
    return {
        "settlement": settlement.to_wire(_dependencies.config),
        "case": number,
        "notice": pager.resolution_notice(settlement.key, number, entry),
    }


def _case(resolution: object, awaited: int) -> int:
    named = resolution.get("case") if isinstance(resolution, dict) else None
    number = awaited if named is None else named
    if not (type(number) is int and 0 < number <= CASES_MAX):
        raise InvalidRequest("resolution.case: must be the number of a case, or be left out")
    return number
