"""Calls around a reversal and a verdict, and the rows that they leave."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from settlement.core.ledger import kyc_review
from settlement.core.ledger.keys import Row
from settlement.core.ledger.kyc_review import WebhookEvent
from settlement.core.ledger.transaction import AlreadyApplied
from settlement.core.model.orders import Resolution
from settlement.core.model.state import SettlementState
from settlement.core.model.status import REVERSIBLE, Step
from settlement.core.model.verdict import Verdict
from settlement.core.policy import recovery, steps
from tests.world.constants import NONCE
from tests.world.environment import NOW
from tests.world.provider import APPROVED, IN_REVIEW
from tests.world.saga import (
    ALICE,
    BOB,
    CLAIMED,
    DEADLINE,
    ENTRIES,
    FAILURE,
    HASH,
    KEY,
    LATER,
    ORDER,
    POSTED_AT,
    RESOLVER,
    REVERSER,
    Saga,
    so_far,
    up_to,
)

# Reversals

REVERSED_AT = "2026-11-20T12:00:07.123Z"
DECIDED_AT = "2026-11-20T13:00:00.123Z"
DUE_AGAIN = {
    "owner": RESOLVER,
    "in_flight_since": "2026-11-20T13:00:00.123Z",
    "gsi1pk": "IN_FLIGHT#2",
    "gsi1sk": "2026-11-20T13:00:30.123Z",
}

ORDERED = {
    "step": "reverse",
    "error": "ReversalRequested",
    "cause": "the customer has sent the goods back (by arn:aws:sts::1:assumed-role/desk/kim)",
}
ESCROW = {None: 0, Step.HOLD: 4820, Step.VERIFY: 4820, Step.RELEASE: 48, Step.FEE: 0}

AVAILABLE = {
    None: (10_000, 500),
    Step.HOLD: (5180, 500),
    Step.VERIFY: (5180, 500),
    Step.RELEASE: (5180, 5272),
    Step.FEE: (5180, 5272),
}

INDEX = ("gsi1pk", "gsi1sk")
OTHER = "order-2026-000404"


def evidence(name: str, posted_at: str = REVERSED_AT, **content: Any) -> Row:
    """Return the row of a fact that moves no money; a person's order is also in the index."""
    listed = {"gsi1pk": "ORDERS#2026-11", "gsi1sk": posted_at} if "by" in content else {}
    return {
        **listed,
        "pk": f"EVIDENCE#{KEY}",
        "sk": f"{KEY}:{name}",
        "step": name,
        "posted_at": posted_at,
        "request_hash": HASH,
        **content,
    }


def moved(name: str, debit: str, credit: str, amount: int, posted_at: str = REVERSED_AT) -> Row:
    """Return the entry of a movement between escrow and an account, in the account's statement."""
    account, side = (debit, "debit") if credit == f"escrow:{KEY}" else (credit, "credit")
    return {
        "pk": f"ENTRIES#{account}" + "#2" * (":" in account),
        "sk": f"{posted_at}#{KEY}:{name}",
        "step": name,
        "posted_at": posted_at,
        "request_hash": HASH,
        "debit": debit,
        "credit": credit,
        "side": side,
        "amount": amount,
        "currency": "EUR",
    }


REVERSED: dict[Step, Row] = {
    Step.FEE: moved("compensate:fee", "fees:EUR", f"escrow:{KEY}", 48),
    Step.RELEASE: moved("compensate:release", "bob", f"escrow:{KEY}", 4772),
    Step.HOLD: moved("compensate:hold", f"escrow:{KEY}", "alice", 4820),
}
REVERSE = evidence("reverse", POSTED_AT, reason=ORDER.reason, by=ORDER.by)


def begun(last: Step | None, *, events: int = 0, **changes: Any) -> Row:
    """Return the settlement's row after its reversal began and made `events` events, with changes."""
    failure = ORDERED if last is Step.FEE else FAILURE
    steps = so_far(last) if last else {}
    return {
        **CLAIMED,
        **steps,
        "status": "COMPENSATING",
        "escrow": ESCROW[last],
        "failure": failure,
        "reversed_for": failure,
        "resolutions": 0,
        "owner": REVERSER,
        "sequence": 2 + len(up_to(last)) + events,
        **({"in_flight_since": POSTED_AT} if last is Step.FEE else {}),
        **changes,
    }


def finished(row: Row, **changes: Any) -> Row:
    return {name: value for name, value in (row | changes).items() if name not in INDEX}


def decision(resolution: Resolution) -> Row:
    return {**said(resolution), "decided_at": DECIDED_AT}


def said(resolution: Resolution) -> dict[str, str]:
    return {"decision": resolution.decision.value, "reason": resolution.reason, "by": resolution.by}


def undone(*steps: Step) -> Row:
    return {step.reversal_slot: REVERSED_AT for step in steps}


def book(row: Row, *others: Row, alice: Row | int, bob: Row | int) -> list[Row]:
    accounts = [
        account | ({"available": change} if isinstance(change, int) else change)
        for account, change in ((ALICE, alice), (BOB, bob))
    ]
    return in_order(*accounts, row, *others)


def in_order(*rows: Row) -> list[Row]:
    return sorted(rows, key=lambda row: (row["pk"], row["sk"]))


def due(saga: Saga, step: Step) -> None:
    """Reverse a settled settlement until the reversal of `step` is next."""
    saga.begun(Step.FEE)
    for earlier in REVERSIBLE[: REVERSIBLE.index(step)]:
        saga.reverse(earlier)


def another(saga: Saga) -> Saga:
    """Return a second settlement of the same parties, about to get stuck in reversal."""
    other = saga.asking(key=OTHER, amount=1000)
    other.claim()
    for step in (Step.HOLD, Step.VERIFY, Step.RELEASE):
        other.commit(step)
    other.begin()
    return other


def posted(last: Step | None) -> list[Row]:
    """Return entries up to and including step `last`, with the order to reverse if settled."""
    return [*(ENTRIES[step] for step in up_to(last)), *([REVERSE] if last is Step.FEE else [])]


# Verdicts

ENDS = NOW + timedelta(hours=24)

ENDS_AT = "2026-11-21T12:00:00.123Z"
OWNER = f"{KEY}-decided"
EVENT = WebhookEvent(id="evt_1", digest="d1")
JUST_BEFORE = DEADLINE - timedelta(milliseconds=1)
WEBHOOK = NOW + timedelta(hours=5)
"""Time of the webhook's verdict: long after the settlement's first deadline."""

HELD = CLAIMED | {"escrow": 4820, "hold_at": POSTED_AT}
QUEUED = HELD | {"sequence": 2}
"""The held row of a key claimed earlier by the start queue."""

UNDER_REVIEW = QUEUED | {
    "sequence": 3,
    "review": "ver_1",
    "deadline_at": ENDS_AT,
    "in_flight_since": ENDS_AT,
    "gsi1sk": ENDS_AT,
}
TIME = {
    "deadline_at": "2026-11-20T17:15:00.123Z",
    "in_flight_since": "2026-11-20T17:00:00.123Z",
    "gsi1sk": "2026-11-20T17:00:00.123Z",
}
"""Times of a settlement after a verdict at `WEBHOOK`: equal to a new settlement's."""


def own(saga: Saga, verdict: Verdict = APPROVED, now: datetime = LATER) -> Row:
    """Record the verdict that answers our own request; return the evidence on record."""
    saga.verify(verdict, now)
    return saga.entry(Step.VERIFY)


def begin_review(
    saga: Saga, verdict: Verdict = IN_REVIEW, now: datetime = NOW, until: datetime = ENDS
) -> SettlementState:
    return saga.ledger.store.update(kyc_review.begin_review(saga.settlement, verdict, until, now))


def webhook(
    saga: Saga, verdict: Verdict = APPROVED, event: WebhookEvent = EVENT, now: datetime = WEBHOOK
) -> Row | SettlementState | None:
    """Record a webhook's verdict like KycDecided; return None if it took effect, else the row or state
    found.
    """
    owner = f"{saga.settlement.key}-decided"
    try:
        saga.ledger.store.transact(
            steps.record_webhook_verdict(saga.settlement, verdict, event, owner, now, saga.config)
        )
    except AlreadyApplied as applied:
        found: Row | SettlementState = applied.found
        return found
    return None


def take_over(saga: Saga, seen: SettlementState | None = None, now: datetime = DEADLINE) -> SettlementState:
    """Take a settlement over for recovery, from a previously seen or the present state."""
    takeover = recovery.take_over(seen or saga.state(), now, saga.config, NONCE)
    assert takeover is not None
    return saga.ledger.store.update(takeover.write)


def held(saga: Saga) -> None:
    saga.reach(Step.HOLD)


def in_review(saga: Saga) -> None:
    held(saga)
    begin_review(saga)


def evidence_of(verdict: Verdict, posted_at: str, name: str = "verify") -> Row:
    """Return evidence of a verdict: `verify` is our own answer, `review` the webhook's."""
    return evidence(name, posted_at, **verdict.evidence())


def marker(event: WebhookEvent = EVENT, received_at: str = "2026-11-20T17:00:00.123Z") -> Row:
    """Return the marker of a webhook event that took effect."""
    return {
        "pk": f"KYC_EVENT#{event.id}",
        "sk": "EVENT",
        "digest": event.digest,
        "key": KEY,
        "received_at": received_at,
    }


def concluded(row: Row, verdict: Verdict, decided_at: str, **changes: Any) -> Row:
    decided: Row = {"verdict": verdict.decision.value}
    if verdict.decision == "APPROVED":
        decided |= {"verify_at": decided_at, "sequence": row["sequence"] + 1}
    return {name: value for name, value in (row | decided | changes).items() if name != "review"}


def verdicts(saga: Saga) -> list[Row]:
    """Return the evidence of verdicts: first the webhook's, which counts, then our own answer's."""
    return [row for row in saga.ledger.rows() if row["sk"].endswith((":review", ":verify"))]


def markers(saga: Saga) -> list[Row]:
    return [row for row in saga.ledger.rows() if row["sk"] == "EVENT"]


def event(number: int) -> WebhookEvent:
    return replace(EVENT, id=f"evt_{number}", digest=f"d{number}")
