"""Stop retrying a stuck reversal, and block its account."""

from dataclasses import replace
from typing import Any

from handlers import _dependencies
from settlement.core.model.errors import AccountNotFound, StepFenced
from settlement.core.model.request import parse_settlement
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Step
from settlement.core.policy import compensation, outcome
from settlement.core.telemetry import observed


@observed("limbo")
def handler(event: dict[str, Any], context: object) -> None:
    """Open a LIMBO case. The event's `stuck` maps the step to its reversal's error.

    Raises StepFenced if the settlement has moved on. If the reversal has committed, only its answer was lost,
    and no case opens. If `reversed` lists the step already, a case opens: a retry would fail for ever.
    """
    settlement = parse_settlement(event["settlement"], _dependencies.config)
    ((step, error),) = event["stuck"].items()
    state = _dependencies.store.settlement(settlement.key)
    if state is None or not _is_stuck(state, step, event):
        raise StepFenced("limbo", f"the reversal of {step} of {settlement.key} is not what is stuck now")
    case, now = compensation.case_of(state, Step(step)), _dependencies.now()
    failure = outcome.failure(case.step.reversal, error)
    try:
        _dependencies.store.commit(compensation.enter_limbo(settlement, case, failure, now))
    except AccountNotFound:  # no account to block, which may be why the reversal is stuck
        case = replace(case, blocked_account=None)
        _dependencies.store.commit(compensation.enter_limbo(settlement, case, failure, now))


def _is_stuck(state: SettlementState, step: str, event: dict[str, Any]) -> bool:
    if state.reversed_for is None or state.case_number != event["case"]:
        return False
    return step not in state.reversed or step in event["reversed"]
