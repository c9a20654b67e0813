"""PreparePage: say what a person must know about a settlement in LIMBO."""

from typing import Any

from handlers import _runtime
from settlement import compensation, rows
from settlement.errors import InvalidRequest, ResolutionRefused, StepFenced
from settlement.outcome import failure
from settlement.request import parse_settlement
from settlement.status import Status
from settlement.telemetry import observed

_REFUSED = (InvalidRequest.__name__, ResolutionRefused.__name__)


@observed("page")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the next page, and how long to wait for a decision. Raises StepFenced out of LIMBO."""
    state = event["state"]
    settlement = parse_settlement(state["settlement"], _runtime.terms)
    row = _runtime.store.read(rows.settlement_key(settlement.key))
    if row is None or row["status"] != Status.LIMBO:
        raise StepFenced(f"page: {settlement.key} is not in LIMBO")
    case, pages = compensation.stuck(settlement, row), state["pages"] + 1
    page = _runtime.paging.page(
        settlement, case, row, _runtime.terms, number=pages, execution=event["execution_arn"]
    )
    if state.get("error", {}).get("Error", "States.Timeout") != "States.Timeout":
        told = failure("resolve", state["error"])
        page["refused"] = told["cause"] if told["error"] in _REFUSED else f"{told['error']}: {told['cause']}"
    return {
        "settlement": settlement.to_wire(_runtime.terms),
        "case": case.number,
        "pages": pages,
        "page": page,
        "wait_seconds": _runtime.paging.wait_seconds(pages),
    }
