"""The calls around a settlement's verdict, and the rows that they leave."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from settlement.ledger import kyc_review
from settlement.ledger.keys import Row
from settlement.ledger.kyc_review import WebhookEvent
from settlement.ledger.transaction import AlreadyApplied
from settlement.model.state import SettlementState
from settlement.model.status import Step
from settlement.model.verdict import Verdict
from settlement.policy import recovery, steps
from tests.conftest import NOW
from tests.store.saga import CLAIMED, DEADLINE, HASH, KEY, LATER, Saga, so_far
from tests.support.kyc import APPROVED, IN_REVIEW

ENDS = NOW + timedelta(hours=24)
"""The end of these tests' reviews, if no verdict comes before."""

ENDS_AT = "2026-11-21T12:00:00.123Z"
OWNER = f"{KEY}-decided"
EVENT = WebhookEvent(id="evt_1", digest="d1")
JUST_BEFORE = DEADLINE - timedelta(milliseconds=1)
WEBHOOK = NOW + timedelta(hours=5)
"""The time of the webhook that ends the review: long after the settlement's first deadline."""

HELD = CLAIMED | {"escrow": 4820, "steps": {"hold"}}
UNDER_REVIEW = HELD | {
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
"""The times of a settlement whose verdict comes at `WEBHOOK`: those of a new settlement."""


def own(saga: Saga, verdict: Verdict = APPROVED, now: datetime = LATER) -> Row:
    """Record the verdict that answers our own request."""
    return saga.ledger.store.commit(steps.verify(saga.settlement, verdict, now))


def begin_review(
    saga: Saga, verdict: Verdict = IN_REVIEW, now: datetime = NOW, until: datetime = ENDS
) -> SettlementState:
    """Begin the review that answers our own request."""
    return saga.ledger.store.update(kyc_review.begin_review(saga.settlement, verdict, until, now))


def webhook(
    saga: Saga, verdict: Verdict = APPROVED, event: WebhookEvent = EVENT, now: datetime = WEBHOOK
) -> Row | None:
    """Record a webhook's verdict. Return None if it took effect, else the row that had it before."""
    owner = f"{saga.settlement.key}-decided"
    writes = steps.record_webhook_verdict(saga.settlement, verdict, event, owner, now, saga.config)
    try:
        saga.ledger.store.transact(writes)
    except AlreadyApplied as applied:
        return applied.found
    return None


def take_over(saga: Saga, seen: SettlementState | None = None, now: datetime = DEADLINE) -> SettlementState:
    """Take a settlement over for recovery, from the state that it has seen or else from the present one."""
    takeover = recovery.take_over(seen or saga.state(), now, saga.config)
    assert takeover is not None
    return saga.ledger.store.update(takeover.write)


def held(saga: Saga) -> None:
    """Fund both accounts, claim the key and hold the amount."""
    saga.reach(Step.HOLD)


def in_review(saga: Saga) -> None:
    held(saga)
    begin_review(saga)


def entry_of(verdict: Verdict, posted_at: str) -> Row:
    """Return the journal entry of a verdict."""
    return {
        "pk": f"SETTLEMENT#{KEY}",
        "sk": f"{KEY}:verify",
        "step": "verify",
        "posted_at": posted_at,
        "request_hash": HASH,
        **verdict.evidence(),
    }


def marker(event: WebhookEvent = EVENT, received_at: str = "2026-11-20T17:00:00.123Z") -> Row:
    """Return the marker that an event leaves with its effect."""
    return {
        "pk": f"KYC_EVENT#{event.id}",
        "sk": "EVENT",
        "digest": event.digest,
        "key": KEY,
        "received_at": received_at,
    }


def concluded(row: Row, verdict: Verdict, **changes: Any) -> Row:
    """Return a settlement's row with this verdict on record."""
    approved = so_far(Step.VERIFY) if verdict.decision == "APPROVED" else {"verdict": "REJECTED"}
    return {name: value for name, value in (row | approved | changes).items() if name != "review"}


def entries(saga: Saga) -> list[Row]:
    """Return the journal entries of the verdict: never more than one."""
    return [row for row in saga.ledger.rows() if row["sk"].endswith(":verify")]


def markers(saga: Saga) -> list[Row]:
    return [row for row in saga.ledger.rows() if row["sk"] == "EVENT"]


ASKED: dict[str, Callable[..., Any]] = {
    "own": own,
    "begin_review": begin_review,
    "webhook": webhook,
}
"""The three writes with the same condition: no verdict is on record."""


def event(number: int) -> WebhookEvent:
    return replace(EVENT, id=f"evt_{number}", digest=f"d{number}")
