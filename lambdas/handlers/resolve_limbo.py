"""ResolveLimbo: carry out a person's decision on a settlement in LIMBO."""

from dataclasses import replace
from typing import Any

from handlers import _runtime
from settlement import compensation, paging, rows
from settlement.errors import AccountNotFound, ResolutionRefused, StepFenced
from settlement.request import Settlement, parse_settlement
from settlement.resolution import Resolution, parse_resolution
from settlement.rows import Row
from settlement.telemetry import observed


@observed("resolve")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the settlement, and the news for those who were paged.

    Raises InvalidRequest and ResolutionRefused, upon which nothing is written, and StepFenced where the
    case was closed in another way.
    """
    settlement = parse_settlement(event["settlement"], _runtime.terms)
    resolution = parse_resolution(event["resolution"])
    number = resolution.case or event["case"]
    row = _runtime.store.read(rows.settlement_key(settlement.key))
    if row is None or row.get("resolutions", 0) >= number:
        entry = _runtime.store.read(rows.entry_key(settlement.key, f"resolve:{number}"))
    else:
        entry = _resolve(settlement, row, resolution, number, event["execution"])
    if entry is None or not resolution.is_on(entry):
        raise StepFenced(f"resolve: case {number} of {settlement.key} was closed in another way")
    return {
        "settlement": settlement.to_wire(_runtime.terms),
        "case": number,
        "news": paging.resolved(settlement.key, number, entry),
    }


def _resolve(settlement: Settlement, row: Row, resolution: Resolution, number: int, execution: str) -> Row:
    compensation.check(settlement, row, resolution.decision)
    case = compensation.stuck(settlement, row)
    if case.number != number:
        raise ResolutionRefused(f"resolution: the open case is number {case.number}, not {number}")
    now, terms = _runtime.now(), _runtime.terms
    try:
        return _runtime.store.post(compensation.resolve(settlement, case, resolution, execution, now, terms))
    except AccountNotFound:  # the account that was barred is gone
        unbarred = replace(case, barred=None)
        return _runtime.store.post(
            compensation.resolve(settlement, unbarred, resolution, execution, now, terms)
        )
