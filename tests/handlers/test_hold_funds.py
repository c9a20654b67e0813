"""HoldFunds holds the amount or refuses. test_hold_funds_claim.py tests its claim."""

import pytest

from settlement.core.ledger.keys import Row
from settlement.core.model.errors import InsufficientFunds
from tests.handlers.conftest import HELD, Calls
from tests.world.constants import CLAIMED_AT, HASH, KEY, LATER_AT


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


def test_the_first_call_claims_the_key_and_holds_the_amount(funded: Calls) -> None:
    assert funded("HoldFunds") == HELD

    row = {
        "pk": f"SETTLEMENT#{KEY}",
        "sk": "SETTLEMENT",
        "payer": "alice",
        "payee": "bob",
        "amount": 4820,
        "fee": 48,
        "currency": "EUR",
        "request_hash": HASH,
        "owner_epoch": 0,
        "sequence": 1,
        "status": "PROCESSING",
        "escrow": 4820,
        "hold_at": CLAIMED_AT,
        "owner": "execution-1",
        "claimed_at": CLAIMED_AT,
        "deadline_at": CLAIMED_AT.replace("12:00", "12:15"),
        "gsi1pk": "IN_FLIGHT#2",
        "gsi1sk": CLAIMED_AT.replace("00:00", "00:30"),
    }
    written = [found for found in funded.ledger.rows() if found["sk"] != "BALANCE"]
    assert written == [entry(CLAIMED_AT), row]
    assert (funded.account("alice")["available"], funded.account("bob")["available"]) == (5180, 500)
    assert funded.counted() == {"StepCalled": 1, "Claimed": 1}


def test_holding_an_already_claimed_key_changes_only_the_hold(calls: Calls) -> None:
    owner = calls.claimed()
    before = calls.row()
    calls.later()
    calls.counted()

    assert calls("HoldFunds", execution=owner) == HELD

    assert calls.row() == before | {"hold_at": LATER_AT, "escrow": 4820, "sequence": 2}
    assert entry(LATER_AT) in calls.ledger.rows()
    assert calls.account("alice")["available"] == 5180
    assert calls.counted() == {"StepCalled": 1, "ClaimRepeated": 1}


@pytest.mark.parametrize("claimed", [False, True])
def test_a_payer_who_cannot_pay_is_refused_keeping_the_claim(calls: Calls, claimed: bool) -> None:
    owner = calls.claimed() if claimed else "execution-1"
    calls.ledger.open("bob", 500)
    calls.ledger.open("alice", 4819)
    calls.later()
    calls.counted()

    with calls.writes_nothing(), pytest.raises(InsufficientFunds, match=r"^payer: "):
        calls("HoldFunds", execution=owner)

    repeated = {"ClaimRepeated": 1} if claimed else {}
    assert calls.counted() == {"StepCalled": 1, "InsufficientFunds": 1} | repeated
