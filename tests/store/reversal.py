"""The rows that the reversal of the `saga` leaves: reversed at `LATER`, resolved at `DECIDED`."""

from collections.abc import Mapping
from typing import Any

from settlement.ledger.keys import Row
from settlement.model.orders import Resolution
from settlement.model.status import REVERSIBLE, Step
from tests.store.saga import (
    ALICE,
    BOB,
    CLAIMED,
    ENTRIES,
    FAILURE,
    HASH,
    KEY,
    ORDER,
    POSTED_AT,
    RESOLVER,
    REVERSER,
    so_far,
    up_to,
)

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


def entry(name: str, posted_at: str = REVERSED_AT, **content: Any) -> Row:
    return {
        "pk": f"SETTLEMENT#{KEY}",
        "sk": f"{KEY}:{name}",
        "step": name,
        "posted_at": posted_at,
        "request_hash": HASH,
        **content,
    }


def moved(name: str, debit: str, credit: str, amount: int, posted_at: str = REVERSED_AT, **more: Any) -> Row:
    """Return the entry of a movement between escrow and another account, which lists it in the index."""
    account, side = (debit, "debit") if credit == f"escrow:{KEY}" else (credit, "credit")
    return entry(
        name,
        posted_at,
        debit=debit,
        credit=credit,
        side=side,
        amount=amount,
        currency="EUR",
        gsi1pk=f"ACCOUNT#{account}" + "#2" * (":" in account),
        gsi1sk=f"{posted_at}#{KEY}:{name}",
        **more,
    )


REVERSED: dict[Step, Row] = {
    Step.FEE: moved("compensate:fee", "fees:EUR", f"escrow:{KEY}", 48),
    Step.RELEASE: moved("compensate:release", "bob", f"escrow:{KEY}", 4772),
    Step.HOLD: moved("compensate:hold", f"escrow:{KEY}", "alice", 4820),
}
SKIPPED: dict[Step, Row] = {
    step: entry(step.reversal, reason=f"nothing to reverse: {step} never committed") for step in REVERSIBLE
}
REVERSE = entry("reverse", POSTED_AT, reason=ORDER.reason, by=ORDER.by)


def begun(last: Step | None, **changes: Any) -> Row:
    """Return the settlement's row after the beginning of its reversal, with these changes."""
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


def book(row: Row, *entries: Row, alice: Mapping[str, Any] | int, bob: Mapping[str, Any] | int) -> list[Row]:
    """Return the accounts, the settlement's row and its entries, in the order of the table."""
    accounts = [
        account | ({"available": change} if isinstance(change, int) else change)
        for account, change in ((ALICE, alice), (BOB, bob))
    ]
    return [*accounts, row, *sorted(entries, key=lambda each: str(each["sk"]))]


def posted(last: Step | None) -> list[Row]:
    """Return the entries of the steps up to and with `last`, and of the order to reverse them, if any."""
    return [*(ENTRIES[step] for step in up_to(last)), *([REVERSE] if last is Step.FEE else [])]
