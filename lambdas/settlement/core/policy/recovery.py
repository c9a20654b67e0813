"""Recovery of stalled settlements. Pure: it decides, and golden vectors pin its writes.

     claim   +30 s        +60 s          +120 s                 deadline
    ───┼───────┼────────────┼──────────────┼──── … ────────────────┼────────────▶
       │ first │ `<key>-r1` │ `<key>-r2`   │ `<key>-r<n>`          │ `<key>-c<n>`
       │ owner │ resumes    │ resumes      │                       │ refunds an unreleased settlement

A released settlement runs on to its fee, however late. A takeover is one conditional update. It names the new
owner and moves recovery's next look. Only then does the new owner start.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from settlement.core.ledger import keys, takeover
from settlement.core.ledger.conditions import NOT_IN_REVIEW, not_committed, overdue
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import Write
from settlement.core.model import executions
from settlement.core.model.orders import order_name
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.status import FINISHED, Status, Step
from settlement.core.model.timestamps import timestamp

BACKOFF_SECONDS_MAX = 900
"""Longest time between two looks: the stage's default time to settle."""

DEADLINE_PASSED = {"Error": "DeadlineExceeded", "Cause": "recover: the time to settle is over"}
REVIEW_EXPIRED = {"Error": "DeadlineExceeded", "Cause": "recover: the review has not ended in time"}


class Action(StrEnum):
    SETTLE = "settle"
    """The execution replays committed steps and resumes."""

    COMPENSATE = "compensate"
    """The execution reverses an expired settlement, or resumes a reversal."""

    ALERT = "alert"
    """The execution alerts again and waits for a decision."""


@dataclass(frozen=True, kw_only=True)
class Takeover:
    action: Action
    execution: str
    input: dict[str, Any]
    write: Write


def is_due(state: SettlementState, now: datetime) -> bool:
    """Whether recovery is due. The row decides: the index may lag."""
    if state.status in FINISHED:
        return False
    next_look = state.recover_at if state.status is Status.LIMBO else state.listed_at
    return (next_look or "") <= timestamp(now)


def in_flight_since(state: SettlementState) -> str:
    """Time of the last start. The claim, a review's end or a decision starts a settlement."""
    return state.in_flight_since or state.claimed_at


def has_missed_its_look(state: SettlementState, now: datetime, config: StageConfig) -> bool:
    """Whether recovery's look was due well before the deadline, but comes too late.

    The settlement then gets more time, because its new owner would lack the full time before the deadline. A
    deadline that the request named stays. The end of a review stays, too, because nothing resumes after it.
    """
    is_open = not (state.is_released or state.is_in_review or state.is_expired)
    if state.status is not Status.PROCESSING or not is_open or state.settlement.deadline_seconds is not None:
        return False
    in_time = timestamp(datetime.fromisoformat(state.deadline_at) - config.time_to_recover)
    return takeover.sort_key(state) < in_time <= timestamp(now)


def take_over(state: SettlementState, now: datetime, config: StageConfig, nonce: str) -> Takeover | None:
    """Decide the takeover. None: the settlement is finished, or in review until its deadline.

    The new owner's name has the `nonce`, so no caller knows the name before the row has it.
    """
    wire, epoch = state.settlement.to_wire(config), state.owner_epoch + 1
    again = timestamp(_next_look(state, now, config))
    compensator = executions.compensate(state.key, epoch, nonce)
    match state.status:
        case Status.PROCESSING if has_missed_its_look(state, now, config):
            extended_at = max(timestamp(now), state.deadline_extended_at or "")  # a clock may be behind
            deadline = _extended_deadline(state, extended_at)
            owner = executions.resume(state.key, epoch, nonce)
            changes = {
                "gsi1sk": min(again, deadline),
                "deadline_at": deadline,
                "deadline_extended_at": extended_at,
            }
            return Takeover(
                action=Action.SETTLE,
                execution=owner,
                input=wire,
                write=takeover.take_over(state, owner, changes, [NOT_IN_REVIEW, not_committed(Step.RELEASE)]),
            )
        case Status.PROCESSING if not state.is_released and state.deadline_at <= timestamp(now):
            error = REVIEW_EXPIRED if state.is_in_review else DEADLINE_PASSED
            changes = {"gsi1sk": again, "expired_at": timestamp(now)}
            return Takeover(
                action=Action.COMPENSATE,
                execution=compensator,
                input={"settlement": wire, "error": error},
                write=takeover.take_over(
                    state, compensator, changes, [overdue(now), not_committed(Step.RELEASE)]
                ),
            )
        case Status.PROCESSING if not state.is_in_review:
            if not state.is_released:  # look again at the deadline, so that the reversal is not late
                again = min(again, state.deadline_at)
            owner = executions.resume(state.key, epoch, nonce)
            return Takeover(
                action=Action.SETTLE,
                execution=owner,
                input=wire,
                write=takeover.take_over(state, owner, {"gsi1sk": again}, [NOT_IN_REVIEW]),
            )
        case Status.COMPENSATING:
            return Takeover(
                action=Action.COMPENSATE,
                execution=compensator,
                input={"settlement": wire, **_unannounced(state)},
                write=takeover.take_over(state, compensator, {"gsi1sk": again}),
            )
        case Status.LIMBO:  # its place in the index is the start of the case, which must stay
            return Takeover(
                action=Action.ALERT,
                execution=compensator,
                input={"settlement": wire},
                write=takeover.take_over(state, compensator, {"recover_at": again}),
            )
    return None


def _unannounced(state: SettlementState) -> dict[str, str]:
    """The latest decision, if possibly unannounced: its function may have died before waking an execution."""
    if state.resolution and executions.is_ordered(state.key, state.owner):
        return {"order": order_name(state.resolutions)}
    return {}


def _extended_deadline(state: SettlementState, extended_at: str) -> str:
    """Add recovery's delay to the deadline, so the new owner loses no time.

    The delay counts from the last extension. So extensions end once recovery has caught up.
    """
    due = takeover.sort_key(state)
    counted_from = max(due, state.deadline_extended_at or due)  # a look that was given back has counted
    late = datetime.fromisoformat(extended_at) - datetime.fromisoformat(counted_from)
    return timestamp(datetime.fromisoformat(state.deadline_at) + late)


def give_back(state: SettlementState, due: str) -> Write:
    """Make a settlement due again, because its new owner could not be started."""
    listed = {**keys.settlement(state.key), "gsi1sk": takeover.sort_key(state)}
    return takeover.look_again(listed, datetime.fromisoformat(due))


def postpone(state: SettlementState, now: datetime, config: StageConfig) -> Write:
    """Move the next look: an execution is working on the settlement."""
    listed = {**keys.settlement(state.key), "gsi1sk": takeover.sort_key(state)}
    return takeover.look_again(listed, _next_look(state, now, config))


def defer_unprocessable(listed: Row, now: datetime, seconds: int = BACKOFF_SECONDS_MAX) -> Write:
    """Defer a row that recovery cannot process. It would block the index for the rows behind it."""
    return takeover.look_again(listed, now + timedelta(seconds=seconds))


def _next_look(state: SettlementState, now: datetime, config: StageConfig) -> datetime:
    doublings = min(state.owner_epoch + 1, 10)
    seconds = min(config.recover_after_seconds << doublings, BACKOFF_SECONDS_MAX)
    return now + timedelta(seconds=seconds)
