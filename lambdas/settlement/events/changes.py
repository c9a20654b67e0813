"""The event of a change of a settlement's row, made of the two images in a record of the table's stream.

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
    """The changes of a settlement that are told."""

    CLAIMED = "claimed"
    """The key is claimed, and nothing is held. A key that was held in the same write begins with `held`."""

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
    """A person has decided on a case of LIMBO: to complete makes it SETTLED, else its reversal continues."""

    REVERSED_IN_PART = "reversed_in_part"


@dataclass(frozen=True, kw_only=True)
class Event:
    """A snapshot of a settlement, named after the write that has made it.

    `sequence` numbers the events of one settlement from 1 on, without a gap. `data` is its outcome.
    """

    type: EventType | Literal["snapshot"]
    key: str
    sequence: int
    data: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The identity of the event, the same on every resend and replay."""
        return f"{self.key}:{self.sequence}"


SNAPSHOT: Final = "snapshot"
"""The type of what a replay sends, beside those of `EventType`: the settlement as it is now."""


def cloud_event(told: Event, *, source: str, time: str) -> dict[str, Any]:
    """Return an event as a CloudEvent 1.0: what `docs/contracts/settlement-event.schema.json` says."""
    return {
        "specversion": "1.0",
        "id": told.id,
        "source": source,
        "type": f"settlement.{told.type}",
        "subject": told.key,
        "time": time,
        "datacontenttype": "application/json",
        "sequence": str(told.sequence),
        "sequencetype": "Integer",
        "data": told.data,
    }


def snapshot(state: SettlementState, config: StageConfig, *, source: str, time: str) -> dict[str, Any]:
    """Return a settlement as it is now, for a reader who may have missed its latest event.

    It has that event's identity and number: a reader who has seen that one has nothing to do.
    Raises MalformedRow for a settlement that cannot be told.
    """
    if not state.sequence:
        raise MalformedRow(f"SETTLEMENT#{state.key}: has no attribute 'sequence'")
    latest = _event(SNAPSHOT, state, config)
    return cloud_event(latest, source=source, time=time) | {"replayed": True}


def event(old: Row | None, new: Row | None, config: StageConfig) -> Event | None:
    """Return the event of a settlement's change; None if it tells nothing, as a takeover.

    The images are those of one write: None if there was no row before it, or is none after it. Raises
    MalformedRow for a row that cannot be read, and for a change that no function makes.
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
    """Return what a write has done; None if it is no event. Raises MalformedRow if no function does it."""
    if before is None:
        begun = after.status, Step.HOLD in after.steps
        if begun not in _BEGUN:
            raise MalformedRow(f"SETTLEMENT#{after.key}: cannot begin as {after.status}")
        return _BEGUN[begun]
    return _moved(before, after) if before.status is not after.status else _progressed(before, after)


def _moved(before: SettlementState, after: SettlementState) -> EventType:
    """Return the event of a change of status. Raises MalformedRow for one that no function makes."""
    if after.status not in TRANSITIONS[before.status]:
        raise MalformedRow(f"SETTLEMENT#{after.key}: cannot become {after.status} from {before.status}")
    if before.status is Status.LIMBO:
        return EventType.RESOLVED
    if after.status is Status.COMPENSATING:
        ordered = (after.reversed_for or {}).get("step") == REVERSE
        return EventType.REVERSAL_ORDERED if ordered else EventType.COMPENSATING
    return _ENTERED[after.status]


def _progressed(before: SettlementState, after: SettlementState) -> EventType | None:
    """Return the event of a write that leaves the status; None if it is none."""
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
