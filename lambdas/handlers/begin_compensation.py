"""BeginCompensation: take the settlement away from its forward steps, and find what is to be reversed."""

from typing import Any

from handlers import _runtime
from settlement import compensation, outcome, reversals, rows
from settlement.errors import InvalidRequest, NotReversible, ResolutionRefused
from settlement.request import Settlement, parse_settlement
from settlement.resolution import parse_order, parse_resolution
from settlement.rows import Row
from settlement.status import Status
from settlement.telemetry import observed


@observed("compensate")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the machine's state: what has committed, what is reversed, and whether anything is to be done.

    The input is the settlement with the `error` that stopped it, with a person's order to reverse it
    (`reversal`), or with their `resolution` of a case of LIMBO; or it is the state of a machine that
    comes back here.
    Raises InvalidRequest, IdempotencyConflict, NotReversible and ResolutionRefused.
    """
    state = event["state"]
    if not isinstance(state, dict):
        raise InvalidRequest("input: must be a JSON object with a settlement")
    if {"reversal", "resolution"} <= state.keys():
        raise InvalidRequest("input: must have a reversal or a resolution, not both")
    settlement = parse_settlement(state.get("settlement"), _runtime.terms)
    if "reversal" in state:
        order = parse_order(state["reversal"], "reversal")
        _runtime.store.post(compensation.requested(settlement, order, _runtime.now(), _runtime.terms))
    if "resolution" in state:
        row = _decided(settlement)
    else:
        row = _fenced(settlement, state.get("error"), event["execution"])
    if "reversal" in state and row["status"] == Status.SETTLED:
        raise NotReversible("reverse: the settlement was completed out of LIMBO since it was first ordered")
    found = {
        "settlement": settlement.to_wire(_runtime.terms),
        "steps": sorted(row.get("steps", ())),
        "reversed": sorted(row.get("reversed", ())),
        "finished": row["status"] in compensation.FINISHED,
        "in_limbo": row["status"] == Status.LIMBO,
        "case": row.get("resolutions", 0) + 1,
        "pages": 0,
    }
    return found | (_resolution(state, found["case"]) if found["in_limbo"] else {})


def _resolution(state: dict[str, Any], case: int) -> dict[str, Any]:
    """A person's decision on the case that is open. One that was made on an earlier case is forgotten."""
    if "resolution" not in state:
        return {}
    resolution = parse_resolution(state["resolution"])
    meant = resolution.case or state.get("case", case)
    if meant == case:
        return {"resolution": {**resolution.record(), "case": case}}
    if "case" in state:
        return {}
    raise ResolutionRefused(f"resolution: the open case is number {case}, not {meant}")


def _fenced(settlement: Settlement, error: Any, execution: str) -> Row:
    """The settlement's row, which is not PROCESSING any more."""
    known = isinstance(error, dict) and isinstance(error.get("Error"), str)
    reason = error if known else {"Error": "CompensationRequested", "Cause": "no error was given"}
    unclaimed = outcome.failure("claim", reason)
    claimed = _runtime.store.claim(
        reversals.refuse_unclaimed(settlement, execution, unclaimed, _runtime.now())
    )
    failure = outcome.failure(compensation.failed_step(claimed), reason)
    return _runtime.store.update(reversals.begin(settlement, failure))


def _decided(settlement: Settlement) -> Row:
    """The settlement's row, which a person has seen in LIMBO: nothing is fenced or written on their word."""
    row = _runtime.store.read(rows.settlement_key(settlement.key))
    if row is None or row["request_hash"] != settlement.request_hash or "resolutions" not in row:
        raise ResolutionRefused(f"resolution: {settlement.key} is no settlement that was ever in LIMBO")
    return row
