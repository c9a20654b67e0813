"""BeginCompensation: take the settlement away from its forward steps, and find what is to be reversed."""

from typing import Any

from handlers import _runtime
from settlement import compensation, outcome, reversals, rows
from settlement.errors import InvalidRequest, NotReversible, ResolutionRefused
from settlement.request import Settlement, parse_settlement
from settlement.resolution import Resolution, parse_resolution, parse_reversal
from settlement.rows import Row
from settlement.status import Status
from settlement.telemetry import observed


@observed("compensate")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the machine's state: what has committed, what is reversed, and whether anything is to be done.

    The input is the settlement with the `error` that stopped it (and the `owner` that asks, if one does),
    with a person's order to reverse it (`reversal`), with their `resolution` of a case of LIMBO, or with
    nothing, to drive on what is being reversed; or it is the state of a machine that comes back here, which
    has a `case`.
    Raises InvalidRequest, IdempotencyConflict, NotReversible and ResolutionRefused.
    """
    state, execution = event["state"], event["execution"]
    if not isinstance(state, dict):
        raise InvalidRequest("input: must be a JSON object with a settlement")
    comes_back = "case" in state
    if not comes_back and len(state.keys() & {"error", "reversal", "resolution"}) > 1:
        raise InvalidRequest("input: must have one of error, reversal and resolution at most")
    settlement = parse_settlement(state.get("settlement"), _runtime.terms)
    decides = "resolution" in state and not comes_back
    order = parse_resolution(state["resolution"]) if decides else None
    if "error" in state and not comes_back:
        row = _fenced(settlement, state, execution)
    else:
        if "reversal" in state:
            reversal = parse_reversal(state["reversal"])
            _runtime.store.post(compensation.requested(settlement, reversal, _runtime.now(), _runtime.terms))
        row = _driven(settlement, execution, order)
        if "reversal" in state and row["status"] == Status.SETTLED:
            raise NotReversible(
                "reverse: the settlement was completed out of LIMBO since it was first ordered"
            )
    found = {
        "settlement": settlement.to_wire(_runtime.terms),
        "steps": sorted(row.get("steps", ())),
        "reversed": sorted(row.get("reversed", ())),
        "finished": row["status"] in (*compensation.FINISHED, Status.PROCESSING),
        "in_limbo": row["status"] == Status.LIMBO,
        "case": row.get("resolutions", 0) + 1,
        "pages": 0,
    }
    if order is not None:
        found["resolution"] = _resolution(order, row)
    return found


def _resolution(resolution: Resolution, row: Row) -> dict[str, Any]:
    """A person's decision, on the open case or on one that is closed, of which the news may be due."""
    decided = row.get("resolutions", 0)
    latest = decided + 1 if row["status"] == Status.LIMBO else decided
    case = latest if resolution.case is None else resolution.case
    if latest == 0:
        raise ResolutionRefused("resolution: the settlement was never in LIMBO")
    if not 0 < case <= latest:
        raise ResolutionRefused(f"resolution: there is no case number {case}, the latest is {latest}")
    return {**resolution.record(), "case": case}


def _fenced(settlement: Settlement, state: dict[str, Any], execution: str) -> Row:
    """The settlement's row, which is not PROCESSING any more, or under another owner than the input's."""
    error, owner = state["error"], state.get("owner")
    if not (owner is None or (isinstance(owner, str) and owner.isprintable())):
        raise InvalidRequest("owner: must be the name of an execution")
    known = isinstance(error, dict) and isinstance(error.get("Error"), str)
    reason = error if known else {"Error": "CompensationRequested", "Cause": "no error was given"}
    unclaimed = outcome.failure("claim", reason)
    claimed = _runtime.store.claim(
        reversals.refuse_unclaimed(settlement, execution, unclaimed, _runtime.now())
    )
    failure = outcome.failure(compensation.failed_step(claimed), reason)
    return _runtime.store.update(reversals.begin(settlement, failure, owner=owner, execution=execution))


def _driven(settlement: Settlement, execution: str, order: Resolution | None) -> Row:
    """The settlement's row, whose owner this execution is from here on, if it is being reversed.

    What is PROCESSING may be well: that takes an error or an order.
    """
    if order is not None:  # what is refused must write nothing
        found = _runtime.store.read(rows.settlement_key(settlement.key))
        if (
            found
            and found["request_hash"] == settlement.request_hash
            and found["status"] != Status.PROCESSING
        ):
            _resolution(order, found)
    row = _runtime.store.update(reversals.drive(settlement, execution))
    if not row or row["status"] == Status.PROCESSING:
        raise InvalidRequest("input: must have the error or the reversal for which it is to be compensated")
    return row
