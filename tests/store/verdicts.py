"""What may happen to a settlement around its verdict, each as one call, and the rows that it leaves."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from settlement import recovery, reviews, steps
from settlement.reviews import Event
from settlement.rows import Row
from settlement.status import Step
from settlement.verdict import Verdict
from settlement.writes import Standing
from tests.conftest import NOW
from tests.store.saga import CLAIMED, DEADLINE, HASH, KEY, LATER, Saga, so_far
from tests.support.kyc import APPROVED, IN_REVIEW

ENDS = NOW + timedelta(hours=24)
"""When the review of these tests ends, if nobody decides before."""

ENDS_AT = "2026-11-21T12:00:00.123Z"
OWNER = f"{KEY}-decided"
EVENT = Event(id="evt_1", digest="d1")
JUST_BEFORE = DEADLINE - timedelta(milliseconds=1)
TOLD = NOW + timedelta(hours=5)
"""When the webhook tells what came of the review: long after the settlement's first deadline."""

HELD = CLAIMED | {"escrow": 4820, "steps": {"hold"}}
PARKED = HELD | {
    "review": "ver_1",
    "deadline_at": ENDS_AT,
    "in_flight_since": ENDS_AT,
    "gsi1sk": ENDS_AT,
}
TIME = {
    "deadline_at": "2026-11-20T17:15:00.123Z",
    "in_flight_since": "2026-11-20T17:00:00.123Z",
    "gsi1sk": "2026-11-20T17:00:30.123Z",
}
"""The time that a settlement gets with a verdict that comes at `TOLD`: that of a new one."""


def own(saga: Saga, verdict: Verdict = APPROVED, now: datetime = LATER) -> Row:
    """Our own request is answered with a verdict."""
    return saga.ledger.store.post(steps.verify(saga.settlement, verdict, now))


def park(saga: Saga, verdict: Verdict = IN_REVIEW, now: datetime = NOW, until: datetime = ENDS) -> Row:
    """Our own request is answered with a review."""
    return saga.ledger.store.update(reviews.park(saga.settlement, verdict, until, now))


def told(saga: Saga, verdict: Verdict = APPROVED, event: Event = EVENT, now: datetime = TOLD) -> Row | None:
    """The webhook tells a verdict. Returns None where it took effect, else the row that had it before."""
    owner = f"{saga.settlement.key}-decided"
    writes = steps.verdict_received(saga.settlement, verdict, event, owner, now, saga.terms)
    try:
        saga.ledger.store.transact(writes)
    except Standing as standing:
        return standing.row
    return None


def take_over(saga: Saga, seen: Row | None = None, now: datetime = DEADLINE) -> Row:
    """Recovery takes over what it has seen in the table, or what stands there now."""
    takeover = recovery.take_over(seen or saga.row(), now, saga.terms)
    assert takeover is not None
    return saga.ledger.store.update(takeover.write)


def held(saga: Saga) -> None:
    """Fund both accounts, claim the key and hold the amount."""
    saga.reach(Step.HOLD)


def parked(saga: Saga) -> None:
    held(saga)
    park(saga)


def entry_of(verdict: Verdict, posted_at: str) -> Row:
    """The journal entry that a verdict leaves."""
    return {
        "pk": f"SETTLEMENT#{KEY}",
        "sk": f"{KEY}:verify",
        "step": "verify",
        "posted_at": posted_at,
        "request_hash": HASH,
        **verdict.evidence(),
    }


def marker(event: Event = EVENT, received_at: str = "2026-11-20T17:00:00.123Z") -> Row:
    """The row that an event leaves once it has had its effect."""
    return {
        "pk": f"KYC_EVENT#{event.id}",
        "sk": "EVENT",
        "digest": event.digest,
        "key": KEY,
        "received_at": received_at,
    }


def concluded(row: Row, verdict: Verdict, **changes: Any) -> Row:
    """A settlement's row once this verdict is on it."""
    approved = so_far(Step.VERIFY) if verdict.decision == "APPROVED" else {"verdict": "REJECTED"}
    return {name: value for name, value in (row | approved | changes).items() if name != "review"}


def entries(saga: Saga) -> list[Row]:
    """The journal entries of the verdict: never more than one."""
    return [row for row in saga.ledger.rows() if row["sk"].endswith(":verify")]


def markers(saga: Saga) -> list[Row]:
    return [row for row in saga.ledger.rows() if row["sk"] == "EVENT"]


ASKED: dict[str, Callable[..., Any]] = {"own": own, "park": park, "told": told}
"""The three writes that wait for the same: that nobody has decided."""


def event(number: int) -> Event:
    return replace(EVENT, id=f"evt_{number}", digest=f"d{number}")
