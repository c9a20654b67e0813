from typing import Any

import pytest

from settlement.core.model.errors import AccountNotFound, InsufficientFunds, StepFenced
from tests.handlers.conftest import Calls
from tests.world.constants import LATER_AT, REJECTED_BY_KYC, REVERSALS, STALLED_ORDER

HELD = {"steps": ["hold"]}


def test_each_function_reverses_its_step_and_the_last_finishes(calls: Calls) -> None:
    found = calls.reopened("RefundFee")
    calls.later()

    for reversed_, (state, step) in enumerate(REVERSALS.items(), 1):
        assert calls.reverse(state, found) is None
        assert calls.row()[f"{step}_reversed_at"] == LATER_AT
        assert sum(name.endswith("_reversed_at") for name in calls.row()) == reversed_

    assert (calls.row()["status"], calls.row()["escrow"]) == ("COMPENSATED", 0)
    assert (calls.account("alice")["available"], calls.account("bob")["available"]) == (10_000, 500)


@pytest.mark.parametrize("state", REVERSALS)
def test_reversing_a_reversed_step_is_a_replay_in_any_status(calls: Calls, state: str) -> None:
    calls.unwind(calls.reopened("RefundFee"))
    calls.later()
    calls.counted()

    with calls.writes_nothing():
        for status in ("COMPENSATED", "COMPENSATING", "LIMBO"):
            calls.alter(status=status)
            calls.reverse(state, HELD)
        calls.alter(status="COMPENSATED")

    assert calls.counted() == {"StepCalled": 3, "StepReplayed": 3}


@pytest.mark.parametrize("state", ["RefundFee", "ReclaimFunds"])
@pytest.mark.parametrize("last", ["HoldFunds", "VerifyKyc"])
def test_a_step_that_never_committed_is_not_reversed(calls: Calls, state: str, last: str) -> None:
    calls.after(last)
    found = calls.begin(error=REJECTED_BY_KYC)

    assert (found["fee_due"], found["release_due"]) == (False, False)
    with calls.writes_nothing(), pytest.raises(StepFenced, match=f"^compensate:{REVERSALS[state]}: "):
        calls.reverse(state, found)


def test_a_settlement_without_a_hold_ends_compensated_without_an_entry(calls: Calls) -> None:
    """The queue claimed the key, no execution runs, and a person orders the reversal."""
    calls.claimed()
    found = calls.begin(reversal=STALLED_ORDER)
    before, journal = calls.row(), calls.entries()
    calls.later()
    calls.counted()

    assert calls.reverse("VoidHold", found) is None

    kept = {name: before[name] for name in before if name not in ("gsi1pk", "gsi1sk")}
    assert calls.row() == kept | {"status": "COMPENSATED", "finished_at": LATER_AT, "sequence": 3}
    assert (calls.entries(), calls.account("alice")["available"]) == (journal, 10_000)
    assert calls.counted() == {"StepCalled": 1, "Compensated": 1}
    calls.later(minutes=1)
    with calls.writes_nothing():
        calls.reverse("VoidHold", found)
    assert calls.counted() == {"StepCalled": 1}


SPENT, MOVED = "payee: the account has too little available to give back", "the account is kept in USD"


@pytest.mark.parametrize(
    ("state", "account", "row", "error", "party"),
    [
        ("ReclaimFunds", "bob", {"available": 4771}, InsufficientFunds, "payee"),
        ("VoidHold", "alice", None, AccountNotFound, "payer"),
    ],
)
def test_a_refused_reversal_names_the_party_that_prevents_it(
    calls: Calls, state: str, account: str, row: dict[str, Any] | None, error: type[Exception], party: str
) -> None:
    found = calls.reopened(state)
    calls.close(account)
    if row:
        calls.ledger.open(account, **row)
    calls.counted()

    with calls.writes_nothing(), pytest.raises(error, match=f"^{party}: "):
        calls.reverse(state, found)

    assert calls.counted() == {"StepCalled": 1, error.__name__: 1}
