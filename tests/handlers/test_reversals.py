"""RefundFee, ReclaimFunds and VoidHold: each reverses its committed step, once."""

from typing import Any

import pytest

from settlement.model.errors import (
    AccountNotFound,
    CurrencyMismatch,
    EscrowMismatch,
    InsufficientFunds,
    StepFenced,
)
from tests.handlers.conftest import Counted, Later
from tests.world.constants import CLAIMED_AT, KEY, LATER_AT, REJECTED_BY_KYC, REVERSALS
from tests.world.functions import Calls

ALL = ["fee", "hold", "release", "verify"]
ENTRIES = {
    "RefundFee": {
        "debit": "fees:EUR",
        "credit": f"escrow:{KEY}",
        "side": "debit",
        "amount": 48,
        "gsi1pk": "ACCOUNT#fees:EUR#2",
    },
    "ReclaimFunds": {
        "debit": "bob",
        "credit": f"escrow:{KEY}",
        "side": "debit",
        "amount": 4772,
        "gsi1pk": "ACCOUNT#bob",
    },
    "VoidHold": {
        "debit": f"escrow:{KEY}",
        "credit": "alice",
        "side": "credit",
        "amount": 4820,
        "gsi1pk": "ACCOUNT#alice",
    },
}
AFTER = {
    "RefundFee": {"escrow": 48, "reversed": {"fee"}},
    "ReclaimFunds": {"escrow": 4820, "reversed": {"fee", "release"}},
    "VoidHold": {
        "escrow": 0,
        "reversed": {"fee", "release", "hold"},
        "status": "COMPENSATED",
        "finished_at": LATER_AT,
    },
}
BALANCES = {"RefundFee": (5180, 5272), "ReclaimFunds": (5180, 500), "VoidHold": (10_000, 500)}


@pytest.mark.parametrize("state", REVERSALS)
def test_the_first_call_reverses_the_step_and_the_last_one_finishes(
    calls: Calls, later: Later, state: str
) -> None:
    found = calls.reopened(state)
    before = calls.row()
    later()

    assert calls.reverse(state, found) is None

    name = f"compensate:{REVERSALS[state]}"
    fixed = {"posted_at": LATER_AT, "currency": "EUR", "gsi1sk": f"{LATER_AT}#{KEY}:{name}"}
    assert calls.entry(name) == ENTRIES[state] | fixed
    index = ("gsi1pk", "gsi1sk") if state == "VoidHold" else ()
    kept = {attribute: before[attribute] for attribute in before if attribute not in index}
    assert calls.row() == kept | AFTER[state]
    assert (calls.account("alice")["available"], calls.account("bob")["available"]) == BALANCES[state]


@pytest.mark.parametrize("state", REVERSALS)
def test_a_step_that_is_known_to_be_reversed_is_left_alone(
    calls: Calls, counted: Counted, state: str
) -> None:
    calls.unwind(calls.reopened("RefundFee"))
    counted()

    with calls.writes_nothing():
        calls.reverse(state, {"steps": ALL, "reversed": list(REVERSALS.values())})

    assert counted() == {"StepCalled": 1}  # no write was tried, else it would be a replay


@pytest.mark.parametrize("state", REVERSALS)
def test_a_skipped_reversal_is_on_record_and_moves_nothing(calls: Calls, later: Later, state: str) -> None:
    calls.after("ClaimKey")
    found = calls.begin(error=REJECTED_BY_KYC)

    calls.reverse(state, found)

    step = REVERSALS[state]
    evidence = {"posted_at": CLAIMED_AT, "reason": f"nothing to reverse: {step} never committed"}
    assert calls.entry(f"compensate:{step}") == evidence
    assert (calls.account("alice")["available"], calls.account("bob")["available"]) == (10_000, 500)
    assert calls.row()["status"] == ("COMPENSATED" if state == "VoidHold" else "COMPENSATING")
    later()
    with calls.writes_nothing():
        calls.reverse(state, found)


@pytest.mark.parametrize("state", REVERSALS)
def test_the_reversal_of_a_step_that_was_written_off_meanwhile_is_fenced(calls: Calls, state: str) -> None:
    found = calls.reopened(state)
    calls.alter(reversed={*calls.row().get("reversed", ()), REVERSALS[state]})

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls.reverse(state, found)


SPENT, MOVED = "payee: the account has too little available to give back", "the account is kept in USD"
GONE = "there is no such account"


@pytest.mark.parametrize(
    ("state", "account", "row", "error", "message"),
    [
        ("ReclaimFunds", "bob", {"available": 4771}, InsufficientFunds, SPENT),
        ("ReclaimFunds", "bob", {"available": 9000, "currency": "USD"}, CurrencyMismatch, f"payee: {MOVED}"),
        ("ReclaimFunds", "bob", None, AccountNotFound, f"payee: {GONE}"),
        ("VoidHold", "alice", {"available": 0, "currency": "USD"}, CurrencyMismatch, f"payer: {MOVED}"),
        ("VoidHold", "alice", None, AccountNotFound, f"payer: {GONE}"),
    ],
)
def test_a_reversal_that_its_account_stops_is_refused_by_name(
    calls: Calls,
    counted: Counted,
    *,
    state: str,
    account: str,
    row: dict[str, Any] | None,
    error: type[Exception],
    message: str,
) -> None:
    found = calls.reopened(state)
    calls.close(account)
    if row:
        calls.ledger.open(account, **row)
    counted()

    with calls.writes_nothing(), pytest.raises(error, match=f"^{message}"):
        calls.reverse(state, found)

    assert counted() == {"StepCalled": 1, error.__name__: 1}


@pytest.mark.parametrize("before", ["RefundFee", "ReclaimFunds"])
def test_the_hold_is_not_voided_before_every_other_reversal(
    calls: Calls, counted: Counted, before: str
) -> None:
    found = calls.reopened(before)
    counted()

    message = "^compensate:hold: the escrow holds something else than was held$"
    with calls.writes_nothing(), pytest.raises(EscrowMismatch, match=message):
        calls.reverse("VoidHold", found)

    assert counted() == {"StepCalled": 1, "EscrowMismatch": 1}
