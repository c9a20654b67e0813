"""Takeover. It writes the next owner to the row, then starts the owner's execution."""

from contextlib import suppress

from handlers import _dependencies
from handlers.core import _trace, _workers
from settlement.aws import step_functions
from settlement.core.ledger import takeover
from settlement.core.model.errors import StartUnavailable, StepFenced
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status
from settlement.core.policy import recovery
from settlement.core.policy.recovery import Action, Takeover
from settlement.core.telemetry import count, logger

STARTS_MAX = 5

_THROTTLED_SECONDS = 0.1
"""The wait before retry n is at most this times 2**n (full jitter)."""

_METRICS = {
    Action.SETTLE: "RecoveredBySettlement",
    Action.COMPENSATE: "RecoveredByCompensation",
    Action.ALERT: "RecoveredByAlert",
}


def recover(state: SettlementState, starts_max: int = 1) -> Takeover | None:
    """Make a new execution the owner and start it. None: the settlement needs no execution.

    Raises StartUnavailable. If all starts are throttled, the settlement is due again at once, except in
    LIMBO. If the execution's name is taken, the next run uses a new name.
    """
    now, config = _dependencies.now(), _dependencies.config
    with suppress(StepFenced):  # another execution has moved it on
        if _is_running(state):
            if state.status is not Status.LIMBO:
                _dependencies.store.update(recovery.postpone(state, now, config))
            return None
        if found := recovery.take_over(state, now, config, _dependencies.nonce()):
            taken = _dependencies.store.update(found.write)
            try:
                _start(found, starts_max)
            except StartUnavailable as error:
                if error.is_throttled and state.status is not Status.LIMBO:
                    _dependencies.store.update(recovery.give_back(taken, takeover.sort_key(state)))
                raise
            count(_METRICS[found.action])
            logger.info("recovered", settlement=state.key, execution_started=found.execution)
            return found
    return None


def _start(found: Takeover, starts_max: int) -> None:
    """Start the new owner. If Standard's quota is exhausted, start it on Express.

    A throttled start has not begun, so no second execution runs.
    """
    if found.action is not Action.SETTLE:
        _start_on("COMPENSATION_MACHINE", found, starts_max)
        return
    try:
        _start_on("SETTLEMENT_MACHINE", found, 1)
    except StartUnavailable as error:
        if not error.is_throttled:
            raise  # it may have begun
        _start_on("EXPRESS_MACHINE", found, starts_max)
        count("RecoveredByExpress")


def _start_on(variable: str, found: Takeover, starts_max: int) -> None:
    machine, request = step_functions.arn(variable), found.input.get("settlement", found.input)
    trace = _trace.header(request["key"])
    for refused in range(starts_max):
        if refused:
            _workers.pause(_dependencies.random.uniform(0, _THROTTLED_SECONDS * 2**refused))
        try:
            return step_functions.start(machine, found.execution, found.input, trace)
        except StartUnavailable as error:
            if not error.is_throttled or refused == starts_max - 1:
                raise
            count("RecoveryThrottled")
    return None


def _is_running(state: SettlementState) -> bool:
    """Whether an execution is known to run the settlement.

    Only compensations are checked, because two in LIMBO would alert twice. Payments are not: Express
    executions cannot be described, and a duplicate is harmless.
    """
    is_expired = state.status is Status.PROCESSING and state.is_expired
    if not is_expired and state.status not in (Status.COMPENSATING, Status.LIMBO):
        return False
    machine = step_functions.arn("COMPENSATION_MACHINE")
    owner = step_functions.execution_arn(machine, state.owner)
    if step_functions.is_running(owner):
        return True
    waits = state.status is Status.LIMBO and _dependencies.store.waiting(state)
    waiting = waits["execution"] if waits else ""
    is_known = waiting.startswith(step_functions.execution_arn(machine, ""))  # a machine may be deleted
    return waiting != owner and is_known and step_functions.is_running(waiting)
