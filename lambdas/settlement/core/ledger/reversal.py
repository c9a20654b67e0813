from collections.abc import Mapping
from datetime import datetime
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.conditions import (
    NEVER_RESOLVED,
    NO_PARTS,
    NOT_IN_REVIEW,
    committed,
    escrow_holds,
    is_undone,
    not_committed,
    not_reversed,
    owner_is,
    same_request,
    sequence_is,
    status_as_expected,
    status_is,
)
from settlement.core.ledger.failure_reasons import fenced, reversal_refusal
from settlement.core.ledger.transaction import (
    AlreadyApplied,
    Write,
    placeholders,
    put,
    update,
    update_with_event,
)
from settlement.core.model.errors import EscrowMismatch, IdempotencyConflict, NotReversible, SettlementError
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status, Step
from settlement.core.model.timestamps import timestamp


def tombstone(settlement: Settlement, owner: str, failure: Mapping[str, str], now: datetime) -> Write:
    """Write a REJECTED row for an unclaimed key, so that a late claim fails.

    A claimed key's row stays unchanged.
    """
    at = timestamp(now)
    row = {
        **keys.settlement(settlement.key),
        "status": Status.REJECTED,
        "escrow": 0,
        **settlement.to_row(),
        "owner": owner,
        "claimed_at": at,
        "deadline_at": at,
        "owner_epoch": 0,
        "sequence": 1,
        "failure": dict(failure),
        "finished_at": at,
    }
    return put(row, on_failure=AlreadyApplied)


def begin(settlement: Settlement, failure: Mapping[str, str], *, owner: str | None, execution: str) -> Write:
    """End PROCESSING, and make `execution` the owner. Afterwards no forward step commits.

    A settlement in another status stays unchanged. If `owner` is given, a settlement with another owner, in
    review or with a committed release stays unchanged, too.
    """
    conditions = [status_is(Status.PROCESSING), same_request(settlement)]
    if owner is not None:
        conditions += [owner_is(owner), NOT_IN_REVIEW, not_committed(Step.RELEASE)]
    return update_with_event(
        keys.settlement(settlement.key),
        "SET #status = :compensating, #failure = :failure, reversed_for = :failure, resolutions = :none,"
        " #owner = :execution",
        values={
            ":compensating": Status.COMPENSATING,
            ":failure": dict(failure),
            ":none": 0,
            ":execution": execution,
        },
        conditions=conditions,
        on_failure=fenced(settlement, "compensate", replay_if=_in_any_status),
    )


def assign_owner(settlement: Settlement, execution: str) -> Write:
    """Make `execution` the owner of a compensation. A row in another status stays unchanged."""
    return update(
        keys.settlement(settlement.key),
        "SET #owner = :execution",
        values={":execution": execution},
        conditions=[status_is(Status.COMPENSATING), same_request(settlement)],
        on_failure=fenced(settlement, "compensate", replay_if=_in_any_status),
    )


def begin_on_order(
    settlement: Settlement,
    expected: Status,
    failure: Mapping[str, str],
    now: datetime,
    config: StageConfig,
    seen: int | None = None,
) -> Write:
    """Begin a reversal on a person's order. The status must still be `expected`, as the person saw it.

    After an approval by several persons, the row's `sequence` must still be `seen`.
    """

    def meaning(state: SettlementState | None) -> SettlementError:
        if state is None:
            return NotReversible(f"the key {settlement.key} was never claimed")
        if not state.same_request(settlement):
            return IdempotencyConflict.of_key(settlement.key)
        if state.status is expected and state.parts:
            return NotReversible(f"{state.parts} parts were reversed: reverse the rest in part", state.status)
        if state.status is expected and seen not in (None, state.sequence):
            return NotReversible("the settlement has changed since it was looked at", state.status)
        completed = state.status is Status.SETTLED and state.resolution is not None
        found = f"{state.status} and was completed out of LIMBO" if completed else state.status
        return NotReversible(f"it was to be {expected}, but the settlement is {found}", state.status)

    index = keys.in_flight_index(settlement.key, timestamp(now + config.time_to_recover))
    conditions = [status_as_expected(expected), same_request(settlement), NEVER_RESOLVED, NO_PARTS]
    if seen is not None:
        conditions += [sequence_is(seen)]
    return update_with_event(
        keys.settlement(settlement.key),
        "SET #status = :compensating, #failure = :failure, reversed_for = :failure, resolutions = :none,"
        " in_flight_since = :now, gsi1pk = :gsi1pk, gsi1sk = :gsi1sk REMOVE finished_at",
        values={
            ":compensating": Status.COMPENSATING,
            ":failure": dict(failure),
            ":none": 0,
            ":now": timestamp(now),
            **placeholders(index),
        },
        conditions=conditions,
        on_failure=meaning,
    )


def reverse_step(settlement: Settlement, step: Step, *, escrow_change: int, now: datetime) -> Write:
    """Mark `step` reversed, and add `escrow_change` (minor units) to the escrow.

    The hold is reversed last.
    """

    def explain(name: str, state: SettlementState) -> SettlementError:
        if state.status is Status.COMPENSATING and state.unreversed == [step]:
            return EscrowMismatch(name)
        return reversal_refusal(name, state)

    conditions = [
        status_is(Status.COMPENSATING),
        same_request(settlement),
        committed(step),
        not_reversed(step),
    ]
    values: dict[str, Any] = {":now": timestamp(now), ":change": escrow_change}
    assignments, removals = f"{step.reversal_slot} = :now, escrow = escrow + :change", ""
    if step is Step.HOLD:
        # A zero fee leaves the escrow whole: only its slot shows that it was given back.
        conditions += [escrow_holds(settlement.amount), is_undone(Step.FEE)]
        assignments += ", #status = :compensated, finished_at = :now"
        removals = " REMOVE gsi1pk, gsi1sk"
        values |= {":compensated": Status.COMPENSATED}
    return update_with_event(
        keys.settlement(settlement.key),
        f"SET {assignments}{removals}",
        values=values,
        conditions=conditions,
        on_failure=fenced(
            settlement, step.reversal, replay_if=lambda state: step in state.reversed, explain=explain
        ),
    )


def finish_unheld(settlement: Settlement, now: datetime) -> Write:
    return update_with_event(
        keys.settlement(settlement.key),
        "SET #status = :compensated, finished_at = :now REMOVE gsi1pk, gsi1sk",
        values={":compensated": Status.COMPENSATED, ":now": timestamp(now)},
        conditions=[status_is(Status.COMPENSATING), same_request(settlement), not_committed(Step.HOLD)],
        on_failure=fenced(
            settlement,
            Step.HOLD.reversal,
            replay_if=lambda state: state.status is Status.COMPENSATED,
            explain=reversal_refusal,
        ),
    )


def _in_any_status(state: SettlementState) -> bool:
    """Always true: the caller continues from the status that it finds."""
    return True
