from collections.abc import Mapping
from datetime import datetime
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.conditions import (
    NOT_EXPIRED,
    Condition,
    before_deadline,
    committed,
    escrow_holds,
    not_committed,
    owner_is,
    same_request,
    sequence_is,
    status_is,
)
from settlement.core.ledger.failure_reasons import fenced, late_or_fenced
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, OnFailure, Write, put, update_with_event
from settlement.core.model.errors import SettlementError, StepFenced
from settlement.core.model.layout import FIRST, NEWEST
from settlement.core.model.saga import SAGA, Step
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status
from settlement.core.model.timestamps import timestamp


def claim(settlement: Settlement, owner: str, now: datetime, config: StageConfig) -> Write:
    return put(_claimed(settlement, owner, now, config), on_failure=AlreadyApplied)


def claim_and_hold(settlement: Settlement, owner: str, now: datetime, config: StageConfig) -> Write:
    """Claim the key and commit the hold in one write. The write is the payment's idempotency check."""
    held = {Step.HOLD.slot: timestamp(now), "escrow": settlement.amount}
    return put(_claimed(settlement, owner, now, config) | held, on_failure=AlreadyApplied)


def advance(settlement: Settlement, step: Step, *, escrow_change: int, now: datetime) -> Write:
    """Commit `step`, and add `escrow_change` (minor units) to the escrow.

    The step's slot is the idempotency record. If the row's layout lacks the step, the row skips it. The fee
    step also finishes the settlement.

    The release requires the held amount in escrow. Hence a function without write access to `escrow` can
    forge neither a hold nor a payout: docs/decisions/2026-11-22-stolen-roles.md.
    """

    def explain(name: str, state: SettlementState) -> SettlementError:
        is_next = state.status is Status.PROCESSING and step.previous(state.layout) in state.steps
        if step is Step.RELEASE and is_next and state.escrow != settlement.amount:
            return StepFenced(name, "the escrow holds something else than was held", state.status)
        return late_or_fenced(now)(name, state)

    conditions = [status_is(Status.PROCESSING), same_request(settlement), not_committed(step)]
    conditions += [*in_turn(step), *takes(step)]
    values: dict[str, Any] = {":now": timestamp(now), ":change": escrow_change}
    assignments, removals = f"{step.slot} = :now, escrow = escrow + :change", ""
    if step is Step.FEE:
        assignments += ", #status = :settled, finished_at = :now"
        removals = " REMOVE gsi1pk, gsi1sk"
        values |= {":settled": Status.SETTLED}
    if SAGA[step].has_deadline:
        conditions += [before_deadline(now), NOT_EXPIRED]
    if step is Step.RELEASE:
        conditions += [escrow_holds(settlement.amount)]
    return update_with_event(
        keys.settlement(settlement.key),
        f"SET {assignments}{removals}",
        values=values,
        conditions=conditions,
        on_failure=fenced(
            settlement,
            step,
            replay_if=lambda state: step in state.steps or not state.takes(step),
            explain=explain,
        ),
    )


def in_turn(step: Step, layout: int = NEWEST) -> list[Condition]:
    """Require the commit of the row layout's previous step."""
    previous = step.previous(layout)
    if previous is None:
        return []
    if (since := SAGA[previous].since) == FIRST:
        return [committed(previous)]
    (earlier,), name = in_turn(step, since - 1), f":since_{previous.value}"
    is_older = f"(attribute_not_exists(layout) OR layout < {name})"
    either = f"({committed(previous).expression} OR ({is_older} AND {earlier.expression}))"
    return [Condition(either, {name: since, **earlier.values})]


def takes(step: Step) -> list[Condition]:
    since = SAGA[step].since
    return [] if since == FIRST else [Condition("layout >= :layout_of_step", {":layout_of_step": since})]


def reject(
    settlement: Settlement,
    failure: Mapping[str, str],
    now: datetime,
    *,
    owner: str | None = None,
    seen: int | None = None,
    on_failure: OnFailure | None = None,
) -> Write:
    """Reject a claimed settlement that holds nothing.

    - `owner`: the calling execution, which must still own the settlement.
    - `seen`: the row's `sequence` that a starter saw before cancelling.
    - `on_failure`: the starter's explanation of a failed condition.
    """
    conditions = [status_is(Status.PROCESSING), same_request(settlement), not_committed(Step.HOLD)]
    if owner is not None:
        conditions += [owner_is(owner)]
    if seen is not None:
        conditions += [sequence_is(seen)]
    rejected = fenced(settlement, "reject", replay_if=lambda state: state.status is Status.REJECTED)
    return update_with_event(
        keys.settlement(settlement.key),
        "SET #status = :rejected, #failure = :failure, finished_at = :now REMOVE gsi1pk, gsi1sk",
        values={":rejected": Status.REJECTED, ":failure": dict(failure), ":now": timestamp(now)},
        conditions=conditions,
        on_failure=on_failure or rejected,
    )


def _claimed(settlement: Settlement, owner: str, now: datetime, config: StageConfig) -> Row:
    deadline = now + config.time_to_settle(settlement.deadline_seconds)
    recover_at = min(deadline, now + config.time_to_recover)
    layout = max(facts.since for facts in SAGA.values() if facts.since <= config.row_layout)
    return {
        **keys.settlement(settlement.key),
        "status": Status.PROCESSING,
        "escrow": 0,
        **settlement.to_row(),
        "owner": owner,
        "claimed_at": timestamp(now),
        "deadline_at": timestamp(deadline),
        "owner_epoch": 0,
        "sequence": 1,
        **({"layout": layout} if layout > FIRST else {}),
        **keys.in_flight_index(settlement.key, timestamp(recover_at)),
    }
