"""Writes of the forward path to the settlement's row: claim, advance, reject."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from settlement.ledger import keys
from settlement.ledger.conditions import (
    NOT_EXPIRED,
    NOTHING_COMMITTED,
    before_deadline,
    not_committed,
    previous_committed,
    same_request,
    status_is,
)
from settlement.ledger.failure_reasons import fenced
from settlement.ledger.transaction import AlreadyApplied, Write, put, update
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from settlement.model.status import Status, Step
from settlement.model.timestamps import timestamp


def claim(settlement: Settlement, owner: str, now: datetime, config: StageConfig) -> Write:
    """Claim the key for `owner`, the name of the execution that will run the settlement."""
    deadline = now + config.time_to_settle(settlement.deadline_seconds)
    recover_at = min(deadline, now + config.time_to_recover)
    row = {
        **keys.settlement(settlement.key),
        "status": Status.PROCESSING,
        "escrow": 0,
        **settlement.to_row(),
        "owner": owner,
        "claimed_at": timestamp(now),
        "deadline_at": timestamp(deadline),
        "owner_epoch": 0,
        **keys.in_flight_index(settlement.key, timestamp(recover_at)),
    }
    return put(row, on_failure=AlreadyApplied)


def advance(settlement: Settlement, step: Step, *, escrow_change: int, now: datetime) -> Write:
    """Commit `step` on the settlement's row, and move an amount into (+) or out of (-) escrow (minor units).

    The last step finishes the settlement in the same write.
    """
    conditions = [status_is(Status.PROCESSING), same_request(settlement)]
    if step.previous is None:
        conditions += [NOTHING_COMMITTED]
    else:
        conditions += [previous_committed(step.previous), not_committed(step)]
    values: dict[str, Any] = {":steps": {step.value}, ":change": escrow_change}
    assignments, removals = "escrow = escrow + :change", ""
    if step is Step.FEE:
        assignments += ", #status = :settled, finished_at = :now"
        removals = " REMOVE gsi1pk, gsi1sk"
        values |= {":settled": Status.SETTLED, ":now": timestamp(now)}
    else:
        conditions += [before_deadline(now), NOT_EXPIRED]
    return update(
        keys.settlement(settlement.key),
        f"SET {assignments}{removals} ADD steps :steps",
        values=values,
        conditions=conditions,
        on_failure=fenced(settlement, step),
    )


def reject(settlement: Settlement, failure: Mapping[str, str], now: datetime) -> Write:
    """Refuse the settlement for good, which is possible only while nothing is held."""
    return update(
        keys.settlement(settlement.key),
        "SET #status = :rejected, #failure = :failure, finished_at = :now REMOVE gsi1pk, gsi1sk",
        values={":rejected": Status.REJECTED, ":failure": dict(failure), ":now": timestamp(now)},
        conditions=[status_is(Status.PROCESSING), same_request(settlement), NOTHING_COMMITTED],
        on_failure=fenced(settlement, "reject", replay_if=lambda state: state.status is Status.REJECTED),
    )
