"""HoldFunds: the hold and its refusals. The claim: test_hold_funds_claim.py."""

from typing import Any

import pytest

from settlement.core.ledger.keys import Row
from settlement.core.model.errors import (
    AccountClosed,
    AccountFrozen,
    AccountInLimbo,
    AccountNotFound,
    CurrencyMismatch,
    DeadlineExceeded,
    InsufficientFunds,
)
from tests.handlers.conftest import Calls
from tests.world.constants import CLAIMED_AT, HASH, KEY, LATER_AT, NONCE, WIRE

HELD_AT_ONCE = {"settlement": WIRE, "claimed_at": CLAIMED_AT, "owner_epoch": 0, "nonce": NONCE}


def entry(posted_at: str) -> Row:
    return {
        "pk": "ENTRIES#alice",
        "sk": f"{posted_at}#{KEY}:hold",
        "step": "hold",
        "request_hash": HASH,
        "posted_at": posted_at,
        "debit": "alice",
        "credit": f"escrow:{KEY}",
        "side": "debit",
        "amount": 4820,
        "currency": "EUR",
    }


def test_the_first_call_claims_the_key_and_holds_the_amount(calls: Calls) -> None:
    calls.before("HoldFunds")

    assert calls("HoldFunds") == HELD_AT_ONCE

    row = {
        "pk": f"SETTLEMENT#{KEY}",
        "sk": "SETTLEMENT",
        "status": "PROCESSING",
        "payer": "alice",
        "payee": "bob",
        "amount": 4820,
        "fee": 48,
        "currency": "EUR",
        "request_hash": HASH,
        "escrow": 4820,
        "hold_at": CLAIMED_AT,
        "owner": "execution-1",
        "owner_epoch": 0,
        "sequence": 1,
        "claimed_at": CLAIMED_AT,
        "deadline_at": CLAIMED_AT.replace("12:00", "12:15"),
        "gsi1pk": "IN_FLIGHT#2",
        "gsi1sk": CLAIMED_AT.replace("00:00", "00:30"),
    }
    written = [found for found in calls.ledger.rows() if found["sk"] != "BALANCE"]
    assert written == [entry(CLAIMED_AT), row]
    assert (calls.account("alice")["available"], calls.account("bob")["available"]) == (5180, 500)
    assert calls.counted() == {"StepCalled": 1, "Claimed": 1}


def test_the_later_hold_of_a_claimed_key_changes_nothing_else(calls: Calls) -> None:
    owner = calls.claimed()
    before = calls.row()
    calls.later()
    calls.counted()

    assert calls("HoldFunds", execution=owner) == HELD_AT_ONCE

    assert calls.row() == before | {"hold_at": LATER_AT, "escrow": 4820, "sequence": 2}
    assert entry(LATER_AT) in calls.ledger.rows()
    assert calls.account("alice")["available"] == 5180
    assert calls.counted() == {"StepCalled": 1, "ClaimRepeated": 1}


def test_nothing_is_held_after_the_deadline_of_a_claimed_key(calls: Calls) -> None:
    owner = calls.claimed()
    calls.later(minutes=15)

    with calls.writes_nothing(), pytest.raises(DeadlineExceeded):
        calls("HoldFunds", execution=owner)


@pytest.mark.parametrize("claimed", [False, True])
@pytest.mark.parametrize(
    ("payer", "error"),
    [
        ({"available": 4819}, InsufficientFunds),
        ({"available": 10_000, "currency": "USD"}, CurrencyMismatch),
        ({"available": 10_000, "limbo_cases": 1}, AccountInLimbo),
        ({"available": 10_000, "frozen_at": "then"}, AccountFrozen),
        ({"available": 10_000, "closed_at": "then"}, AccountClosed),
        (None, AccountNotFound),
    ],
)
def test_a_refused_payer_is_named_and_leaves_the_claim_unchanged(
    calls: Calls, payer: dict[str, Any] | None, error: type[Exception], claimed: bool
) -> None:
    owner = calls.claimed() if claimed else "execution-1"
    calls.close("alice")
    calls.ledger.open("bob", 500)
    if payer:
        calls.ledger.open("alice", **payer)
    calls.later()
    calls.counted()

    with calls.writes_nothing(), pytest.raises(error, match=r"^payer: "):
        calls("HoldFunds", execution=owner)

    assert calls.counted() == {"StepCalled": 1, error.__name__: 1} | ({"ClaimRepeated": 1} if claimed else {})
