"""ResolveLimbo: carry out a person's decision on a settlement in LIMBO."""

from dataclasses import replace
from typing import Any

from handlers import _dependencies
from settlement.adapters.telemetry import observed
from settlement.ledger.keys import Row
from settlement.model.case import Case
from settlement.model.errors import AccountNotFound, ResolutionRefused, StepFenced
from settlement.model.orders import Resolution, parse_resolution
from settlement.model.request import parse_settlement
from settlement.model.settlement import Settlement
from settlement.model.state import SettlementState
from settlement.policy import compensation, pager


@observed("resolve")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the settlement, and the notice of the decision for on call.

    Raises InvalidRequest and ResolutionRefused, after which nothing is written, and StepFenced if another
    decision closed the case.
    """
    settlement = parse_settlement(event["settlement"], _dependencies.config)
    resolution = parse_resolution(event["resolution"])
    number = resolution.case or event["case"]
    state = _dependencies.store.settlement(settlement.key)
    if state is None or state.resolutions >= number:
        entry = _dependencies.store.evidence(settlement.key, f"resolve:{number}")
    else:
        entry = _resolve(settlement, state, resolution, number, event["execution"])
    if entry is None or not resolution.is_on(entry):
        raise StepFenced("resolve", f"case {number} of {settlement.key} was closed in another way")
    return {
        "settlement": settlement.to_wire(_dependencies.config),
        "case": number,
        "notice": pager.resolution_notice(settlement.key, number, entry),
    }


def _resolve(
    settlement: Settlement, state: SettlementState, resolution: Resolution, number: int, execution: str
) -> Row:
    compensation.ensure_can_resolve(state, resolution.decision)
    case = compensation.stuck_case(state)
    if case.number != number:
        raise ResolutionRefused(f"resolution: the open case is number {case.number}, not {number}")
    try:
        return _commit(settlement, case, resolution, execution)
    except AccountNotFound:  # the blocked account is gone
        return _commit(settlement, replace(case, blocked_account=None), resolution, execution)


def _commit(settlement: Settlement, case: Case, resolution: Resolution, execution: str) -> Row:
    now, config = _dependencies.now(), _dependencies.config
    transaction = compensation.resolve(settlement, case, resolution, execution, now, config)
    found: Row | None = _dependencies.store.commit(transaction)
    return found or dict(transaction.gate.parameters["Item"])
