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
from settlement.core.model.status import Step
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
"""The escrow, by the last committed step."""

AVAILABLE = {
    None: (10_000, 500),
    Step.HOLD: (5180, 500),
    Step.VERIFY: (5180, 500),
    Step.RELEASE: (5180, 5272),
    Step.FEE: (5180, 5272),
}
"""The available balances of alice and bob, by the last committed step."""

INDEX = ("gsi1pk", "gsi1sk")


def evidence(name: str, posted_at: str = REVERSED_AT, **content: Any) -> Row:
    """Return the row of a fact that moves nothing; the index lists that of a person's order."""
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
    """Return the entry of a movement between escrow and another account, in whose statement it is."""
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
    """Return the settlement's row after the beginning of its reversal, with these changes.

    `events` is the number of events that it has made since.
    """
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
    """Return a settlement's row, out of the index."""
    return {name: value for name, value in (row | changes).items() if name not in INDEX}


def decision(resolution: Resolution) -> Row:
    """Return the decision as the settlement's row has it."""
    return {**said(resolution), "decided_at": DECIDED_AT}


def said(resolution: Resolution) -> dict[str, str]:
    return {"decision": resolution.decision.value, "reason": resolution.reason, "by": resolution.by}


def undone(*steps: Step) -> Row:
    """Return the attributes of a settlement's row once these steps are reversed."""
    return {step.reversal_slot: REVERSED_AT for step in steps}


def book(row: Row, *others: Row, alice: Row | int, bob: Row | int) -> list[Row]:
    """Return the accounts, the settlement's row, its entries and its evidence, in the order of the table."""
    accounts = [
        account | ({"available": change} if isinstance(change, int) else change)
        for account, change in ((ALICE, alice), (BOB, bob))
    ]
    return in_order(*accounts, row, *others)


def in_order(*rows: Row) -> list[Row]:
    """Return rows in the order in which the tests read a table."""
    return sorted(rows, key=lambda row: (row["pk"], row["sk"]))


def posted(last: Step | None) -> list[Row]:
    """Return the entries of the steps up to and with `last`, and of the order to reverse them, if any."""
    return [*(ENTRIES[step] for step in up_to(last)), *([REVERSE] if last is Step.FEE else [])]


# Verdicts

ENDS = NOW + timedelta(hours=24)
"""The end of these tests' reviews, if no verdict comes before."""

ENDS_AT = "2026-11-21T12:00:00.123Z"
OWNER = f"{KEY}-decided"
EVENT = WebhookEvent(id="evt_1", digest="d1")
JUST_BEFORE = DEADLINE - timedelta(milliseconds=1)
WEBHOOK = NOW + timedelta(hours=5)
"""The time of the webhook that ends the review: long after the settlement's first deadline."""

HELD = CLAIMED | {"escrow": 4820, "hold_at": POSTED_AT}
QUEUED = HELD | {"sequence": 2}
"""The same of a key that the start queue has claimed before."""

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
"""The times of a settlement whose verdict comes at `WEBHOOK`: those of a new settlement."""


def own(saga: Saga, verdict: Verdict = APPROVED, now: datetime = LATER) -> Row:
    """Record the verdict that answers our own request; return the evidence on record."""
    saga.verify(verdict, now)
    return saga.entry(Step.VERIFY)


def begin_review(
    saga: Saga, verdict: Verdict = IN_REVIEW, now: datetime = NOW, until: datetime = ENDS
) -> SettlementState:
    """Begin the review that answers our own request."""
    return saga.ledger.store.update(kyc_review.begin_review(saga.settlement, verdict, until, now))


def webhook(
    saga: Saga, verdict: Verdict = APPROVED, event: WebhookEvent = EVENT, now: datetime = WEBHOOK
) -> Row | SettlementState | None:
    """Record a webhook's verdict as KycDecided does; return None if it took effect, else what it found."""
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
    """Take a settlement over for recovery, from the state that it has seen or else from the present one."""
    takeover = recovery.take_over(seen or saga.state(), now, saga.config, NONCE)
    assert takeover is not None
    return saga.ledger.store.update(takeover.write)


def held(saga: Saga) -> None:
    """Fund both accounts, claim the key and hold the amount."""
    saga.reach(Step.HOLD)


def in_review(saga: Saga) -> None:
    held(saga)
    begin_review(saga)


def evidence_of(verdict: Verdict, posted_at: str, name: str = "verify") -> Row:
    """Return the evidence of a verdict: of our own answer, or of the webhook's, `review`."""
    return evidence(name, posted_at, **verdict.evidence())


def marker(event: WebhookEvent = EVENT, received_at: str = "2026-11-20T17:00:00.123Z") -> Row:
    """Return the marker that an event leaves with its effect."""
    return {
        "pk": f"KYC_EVENT#{event.id}",
        "sk": "EVENT",
        "digest": event.digest,
        "key": KEY,
        "received_at": received_at,
    }


def concluded(row: Row, verdict: Verdict, decided_at: str, **changes: Any) -> Row:
    """Return a settlement's row with this verdict on record."""
    decided: Row = {"verdict": verdict.decision.value}
    if verdict.decision == "APPROVED":
        decided |= {"verify_at": decided_at, "sequence": row["sequence"] + 1}
    return {name: value for name, value in (row | decided | changes).items() if name != "review"}


def verdicts(saga: Saga) -> list[Row]:
    """Return the evidence of verdicts: the webhook's, which counts, and then that of our own answer."""
    return [row for row in saga.ledger.rows() if row["sk"].endswith((":review", ":verify"))]


def markers(saga: Saga) -> list[Row]:
    return [row for row in saga.ledger.rows() if row["sk"] == "EVENT"]


def event(number: int) -> WebhookEvent:
    return replace(EVENT, id=f"evt_{number}", digest=f"d{number}")
