"""Outcome events, made from stream records of settlements' rows.

The row is the outbox: docs/decisions/2026-11-23-outcome-events.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal

from settlement.core.ledger.keys import Row
from settlement.core.model.orders import REVERSE
from settlement.core.model.request import KEY
from settlement.core.model.saga import SAGA, Step
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.status import TRANSITIONS, Status
from settlement.core.model.stored import MalformedRow
from settlement.core.policy import outcome


class EventType(StrEnum):
    CLAIMED = "claimed"
    """Type of a claim without a hold. A claim with a hold is `held`."""

    HELD = "held"
    IN_REVIEW = "in_review"
    VERIFIED = "verified"
    RELEASED = "released"
    SETTLED = "settled"
    REJECTED = "rejected"
    COMPENSATING = "compensating"
    REVERSAL_ORDERED = "reversal_ordered"
    FEE_REFUNDED = "fee_refunded"
    RECLAIMED = "reclaimed"
    COMPENSATED = "compensated"
    LIMBO = "limbo"
    RESOLVED = "resolved"
    """A person decided a case of LIMBO. `complete` settles the settlement; other decisions reverse it."""

    REVERSED_IN_PART = "reversed_in_part"


SETTLEMENT: Final = "settlement"


@dataclass(frozen=True, kw_only=True)
class Event:
    """A settlement, payout or pay run after a change. `type` names the change, `about` the kind.

    `sequence` numbers its events from 1 without a gap.
    """

    type: str
    key: str
    sequence: int
    data: Mapping[str, Any]
    about: str = SETTLEMENT

    @property
    def id(self) -> str:
        """The event's id, equal in each resend and replay. A payout can share a settlement's key."""
        named = self.key if self.about == SETTLEMENT else f"{self.about}:{self.key}"
        return f"{named}:{self.sequence}"


SNAPSHOT: Final = "snapshot"
"""Type of a replayed event."""


def cloud_event(told: Event, *, source: str, time: str) -> dict[str, Any]:
    """A CloudEvent as in `docs/contracts`: `settlement-event`, `payout-event` or `payrun-event`."""
    return {
        "specversion": "1.0",
        "id": told.id,
        "source": source,
        "type": f"{told.about}.{told.type}",
        "subject": told.key,
        "time": time,
        "datacontenttype": "application/json",
        "sequence": str(told.sequence),
        "sequencetype": "Integer",
        "data": told.data,
    }


def snapshot(state: SettlementState, config: StageConfig, *, source: str, time: str) -> dict[str, Any]:
    """The current state, with id and sequence of the latest event. Raises MalformedRow.

    A consumer that has the latest event drops the snapshot.
    """
    if not state.sequence:
        raise MalformedRow(f"SETTLEMENT#{state.key}: has no attribute 'sequence'")
    latest = _event(SNAPSHOT, state, config)
    return cloud_event(latest, source=source, time=time) | {"replayed": True}


def event(old: Row | None, new: Row | None, config: StageConfig) -> Event | None:
    """The event of one write. None: the write has no event, such as a takeover.

    `old` is None for a new row. Raises MalformedRow for an unreadable row, a deletion, or a change that no
    function makes.
    """
    if new is None:
        raise MalformedRow(f"{(old or {}).get('pk')}: the settlement's row was deleted")
    after = SettlementState.from_row(new)
    before = SettlementState.from_row(old) if old is not None else None
    name, counted = _name(before, after), after.sequence - (before.sequence if before else 0)
    if (name is None, counted) not in ((True, 0), (False, 1)):
        told = name or "no event"
        raise MalformedRow(f"{new['pk']}: makes {told}, but its sequence grows by {counted}")
    if name is None:
        return None
    return _event(name, after, config)


def _event(name: EventType | Literal["snapshot"], state: SettlementState, config: StageConfig) -> Event:
    currency = state.settlement.currency
    if currency not in config.currencies:
        raise MalformedRow(f"SETTLEMENT#{state.key}: the stage has no currency {currency}")
    if not KEY.fullmatch(state.key):
        raise MalformedRow(f"SETTLEMENT#{state.key}: no request has such a key")
    data = outcome.of_state(state, config, replayed=False)
    return Event(type=name, key=state.key, sequence=state.sequence, data=data)


def _name(before: SettlementState | None, after: SettlementState) -> EventType | None:
    if before is None:
        begun = after.status, Step.HOLD in after.steps
        if begun not in _BEGUN:
            raise MalformedRow(f"SETTLEMENT#{after.key}: cannot begin as {after.status}")
        return _BEGUN[begun]
    return _moved(before, after) if before.status is not after.status else _progressed(before, after)


def _moved(before: SettlementState, after: SettlementState) -> EventType:
    if after.status not in TRANSITIONS[before.status]:
        raise MalformedRow(f"SETTLEMENT#{after.key}: cannot become {after.status} from {before.status}")
    if before.status is Status.LIMBO:
        return EventType.RESOLVED
    if after.status is Status.COMPENSATING:
        ordered = (after.reversed_for or {}).get("step") == REVERSE
        return EventType.REVERSAL_ORDERED if ordered else EventType.COMPENSATING
    return _ENTERED[after.status]


def _progressed(before: SettlementState, after: SettlementState) -> EventType | None:
    for slots, names in (
        (_new(before.steps, after.steps), _DONE),
        (_new(before.reversed, after.reversed), _UNDONE),
    ):
        if slots:
            return names[slots[-1]]
    if after.parts != before.parts:
        return EventType.REVERSED_IN_PART
    return EventType.IN_REVIEW if after.is_in_review and not before.is_in_review else None


def _new(before: Mapping[str, str], after: Mapping[str, str]) -> list[Step]:
    return [step for step in Step if step in after and step not in before]


_BEGUN = {
    (Status.PROCESSING, False): EventType.CLAIMED,
    (Status.PROCESSING, True): EventType.HELD,
    (Status.REJECTED, False): EventType.REJECTED,
}
_ENTERED = {
    Status.SETTLED: EventType.SETTLED,
    Status.REJECTED: EventType.REJECTED,
    Status.COMPENSATED: EventType.COMPENSATED,
    Status.LIMBO: EventType.LIMBO,
}
_DONE = {step: EventType(facts.event) for step, facts in SAGA.items()}
_UNDONE = {step: EventType(facts.moves.reversed_event) for step, facts in SAGA.items() if facts.moves}
