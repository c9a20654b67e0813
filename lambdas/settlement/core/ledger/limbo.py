from collections.abc import Mapping
from datetime import datetime
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.conditions import (
    case_unchanged,
    committed,
    escrow_holds,
    no_later_case,
    not_reversed,
    same_request,
    status_is,
)
from settlement.core.ledger.failure_reasons import fenced, reversal_refusal
from settlement.core.ledger.transaction import Write, placeholders, put, update_with_event
from settlement.core.model.case import Case
from settlement.core.model.errors import ResolutionRefused, SettlementError, StepFenced
from settlement.core.model.orders import Decision, Resolution
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status, Step
from settlement.core.model.timestamps import timestamp


def enter(settlement: Settlement, case: Case, failure: Mapping[str, str], now: datetime) -> Write:
    conditions = [
        status_is(Status.COMPENSATING),
        same_request(settlement),
        case_unchanged(case.number - 1),
    ]
    if not case.done:
        conditions += [not_reversed(case.step)]
    return update_with_event(
        keys.settlement(settlement.key),
        "SET #status = :limbo, stuck_step = :stuck, #failure = :failure, gsi1pk = :gsi1pk, gsi1sk = :gsi1sk",
        values={
            ":limbo": Status.LIMBO,
            ":stuck": case.step.reversal,
            ":failure": dict(failure),
            **placeholders(keys.limbo_index(timestamp(now))),
        },
        conditions=conditions,
        on_failure=fenced(settlement, "limbo", explain=reversal_refusal),
    )


def await_decision(settlement: Settlement, case: int, token: str, execution: str) -> Write:
    """Record the waiting execution and its task token. A decision wakes the execution recorded last.

    The token has its own row, because each write of the settlement's row would pay for its kilobyte.
    """
    row = {
        **keys.waiting(settlement.key),
        "key": settlement.key,
        "case": case,
        "token": token,
        "execution": execution,
    }
    return put(
        row,
        on_failure=lambda found: StepFenced("await", f"a later case of {settlement.key} is waited for"),
        condition=no_later_case(case),
    )


def leave(
    settlement: Settlement,
    case: Case,
    resolution: Resolution,
    execution: str,
    now: datetime,
    config: StageConfig,
) -> Write:
    """Carry out a person's decision. Only this write leaves LIMBO.

    `execution` replaces the owner, which may still wait. The row keeps the steps that the losses
    account paid in all cases so far.
    """
    conditions = [
        status_is(Status.LIMBO),
        same_request(settlement),
        case_unchanged(case.number - 1),
        escrow_holds(case.escrow),
    ]
    is_covered = resolution.decision is Decision.WRITE_OFF
    covered = sorted(case.covered | ({case.step.value} if is_covered else set()))
    made = {"decided_at": timestamp(now)} | ({"covered": " ".join(covered)} if covered else {})
    values: dict[str, Any] = {
        ":number": case.number,
        ":resolution": resolution.record() | made,
        ":status": Status.COMPENSATING,
        ":execution": execution,
        ":now": timestamp(now),
    }
    assignments = ["#status = :status", "resolutions = :number", "resolution = :resolution"]
    assignments += ["#owner = :execution", "in_flight_since = :now"]
    removals = ["stuck_step", "recover_at"]
    if resolution.decision is Decision.COMPLETE:
        conditions += [committed(Step.RELEASE), not_reversed(Step.RELEASE)]
        values |= {":status": Status.SETTLED, ":change": -case.escrow}
        assignments += ["escrow = escrow + :change", "finished_at = :now"]
        removals += ["#failure", "gsi1pk", "gsi1sk"]
    else:
        due_at = timestamp(now + config.time_to_recover)
        values |= placeholders(keys.in_flight_index(settlement.key, due_at))
        assignments += ["#failure = reversed_for", "gsi1pk = :gsi1pk", "gsi1sk = :gsi1sk"]
    if is_covered:
        conditions += [committed(case.step), not_reversed(case.step)]
        values |= {":change": case.amount}
        assignments += [f"{case.step.reversal_slot} = :now", "escrow = escrow + :change"]
    return update_with_event(
        keys.settlement(settlement.key),
        f"SET {', '.join(assignments)} REMOVE {', '.join(removals)}",
        values=values,
        conditions=conditions,
        on_failure=fenced(settlement, "resolve", explain=_not_resolvable),
    )


def _not_resolvable(step: str, state: SettlementState) -> SettlementError:
    if state.status is Status.LIMBO:
        return ResolutionRefused("resolution: the settlement has moved on since it was looked at")
    return StepFenced(step, f"the settlement is {state.status}, not in LIMBO", state.status)
