"""Stop all forward steps, and find the steps to reverse."""

from contextlib import suppress
from typing import Any

from handlers import _dependencies
from settlement.core.ledger import forward, reversal
from settlement.core.model.compensation_input import Decided, Failure, parse_compensation
from settlement.core.model.errors import InvalidRequest, ResolutionRefused, StepFenced
from settlement.core.model.settlement import Settlement
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status
from settlement.core.model.timestamps import timestamp
from settlement.core.policy import compensation, outcome
from settlement.core.telemetry import count, observed


@observed("compensate")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Begin or resume the compensation. Return the machine's state, with the steps left to reverse.

    An `order` names a recorded decision, which the execution announces. Raises InvalidRequest,
    IdempotencyConflict and ResolutionRefused.
    """
    execution = event["execution"]
    if not isinstance(execution, str):
        raise InvalidRequest("execution: must be the name of an execution")
    given = parse_compensation(event["state"], _dependencies.config)
    settlement, cause = given.settlement, given.cause
    match cause:
        case Failure():
            state = _begin(settlement, cause, execution)
        case Decided():
            _ensure_decided(settlement, cause.case)
            state = _resume(settlement, execution)
        case None:
            state = _resume(settlement, execution)
    found = compensation.machine_state(state, _dependencies.config)
    if isinstance(cause, Decided):
        found["resolution"] = {"case": cause.case}
    elif compensation.is_completed_by(state, given.unannounced_case):
        found["resolution"] = {"case": given.unannounced_case}
    return found


def _begin(settlement: Settlement, cause: Failure, execution: str) -> SettlementState:
    store, now = _dependencies.store, _dependencies.now()
    unclaimed = outcome.failure("claim", cause.error)
    claimed = store.claim(reversal.tombstone(settlement, execution, unclaimed, now))
    failure = compensation.failure_of(claimed, cause.error)
    if claimed.status is Status.PROCESSING and not claimed.steps:
        with suppress(StepFenced):  # held meanwhile, or under another owner
            state = store.update(forward.reject(settlement, failure, now, owner=cause.owner))
            if state.finished_at == timestamp(now):  # and not by an earlier call
                count("Rejected")
            return state
    return store.update(reversal.begin(settlement, failure, owner=cause.owner, execution=execution))


def _resume(settlement: Settlement, execution: str) -> SettlementState:
    try:
        state = _dependencies.store.update(reversal.assign_owner(settlement, execution))
    except StepFenced as unclaimed:
        raise InvalidRequest(f"input: {unclaimed}") from None
    if state.status is Status.PROCESSING:
        raise InvalidRequest("input: must have the error for which it is to be compensated")
    return state


def _ensure_decided(settlement: Settlement, case: int) -> None:
    state = _dependencies.store.settlement(settlement.key)
    if state and state.same_request(settlement) and state.resolutions < case:
        raise ResolutionRefused(f"order: case {case} is not decided")
