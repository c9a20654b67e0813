"""BeginCompensation: fence off the forward steps, and find the steps to reverse."""

from contextlib import suppress
from typing import Any

from handlers import _dependencies
from settlement.adapters.telemetry import count, observed
from settlement.ledger import forward, reversal
from settlement.model.compensation_input import Failure, parse_compensation
from settlement.model.errors import InvalidRequest, NotReversible, StepFenced
from settlement.model.orders import Resolution, Reversal
from settlement.model.settlement import Settlement
from settlement.model.state import SettlementState
from settlement.model.status import Status
from settlement.model.timestamps import timestamp
from settlement.policy import compensation, outcome


@observed("compensate")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the machine's state: the committed and the reversed steps, and what is left to do.

    For the causes of a compensation see `CompensationInput`. Raises InvalidRequest, IdempotencyConflict,
    NotReversible and ResolutionRefused.
    """
    execution = event["execution"]
    if not isinstance(execution, str):
        raise InvalidRequest("execution: must be the name of an execution")
    given = parse_compensation(event["state"], _dependencies.config)
    settlement, cause = given.settlement, given.cause
    match cause:
        case Failure():
            state = _begin(settlement, cause, execution)
        case Reversal():
            state = _begin_on_order(settlement, cause, execution)
        case Resolution():
            _ensure_has_case(settlement, cause)
            state = _resume(settlement, execution)
        case None:
            state = _resume(settlement, execution)
    found = compensation.machine_state(state, _dependencies.config)
    if isinstance(cause, Resolution):
        case = compensation.case_to_resolve(state, cause)
        found["resolution"] = {**cause.record(), "case": case}
    return found


def _begin(settlement: Settlement, cause: Failure, execution: str) -> SettlementState:
    """Take PROCESSING away; or find the settlement finished, being reversed, or under another owner.

    What holds nothing is rejected: there is nothing to reverse.
    """
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


def _begin_on_order(settlement: Settlement, order: Reversal, execution: str) -> SettlementState:
    now, config = _dependencies.now(), _dependencies.config
    _dependencies.store.commit(compensation.reverse_on_order(settlement, order, now, config))
    state = _resume(settlement, execution)
    if state.status is Status.SETTLED:
        raise NotReversible(
            "the settlement was completed out of LIMBO since it was first ordered", state.status
        )
    return state


def _resume(settlement: Settlement, execution: str) -> SettlementState:
    """Make this execution the owner of a compensation. A PROCESSING settlement needs a cause."""
    try:
        state = _dependencies.store.update(reversal.assign_owner(settlement, execution))
    except StepFenced as unclaimed:
        raise InvalidRequest(f"input: {unclaimed}") from None
    if state.status is Status.PROCESSING:
        raise InvalidRequest("input: must have the error or the reversal for which it is to be compensated")
    return state


def _ensure_has_case(settlement: Settlement, order: Resolution) -> None:
    """Refuse a resolution of a case that there never was, before anything is written."""
    state = _dependencies.store.settlement(settlement.key)
    if state and state.same_request(settlement) and state.status is not Status.PROCESSING:
        compensation.case_to_resolve(state, order)
