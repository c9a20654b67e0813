"""A customer's account on a table: it opens with the entry that explains its balance, and only once."""

from collections.abc import Callable
from datetime import datetime

import pytest

from settlement.ledger import balances, entries, keys
from settlement.ledger.keys import Row
from settlement.ledger.transaction import AlreadyApplied, Write
from tests.world.books import assert_conserved
from tests.world.environment import NOW
from tests.world.ledger import Ledger
from tests.world.saga import ALICE, LATER, POSTED_AT, outcome_of

DEPOSIT = {
    "pk": "ENTRIES#alice",
    "sk": f"{POSTED_AT}#open-alice:deposit",
    "step": "deposit",
    "posted_at": POSTED_AT,
    "debit": "external:EUR",
    "credit": "alice",
    "side": "credit",
    "amount": 10_000,
    "currency": "EUR",
}


def opening(amount: int, now: datetime = NOW) -> list[Write]:
    return [
        balances.open_account("alice", "EUR", amount),
        entries.deposit("open-alice", "alice", amount, "EUR", now),
    ]


@pytest.mark.parametrize("again", [NOW, LATER])
def test_an_account_opens_with_the_entry_that_explains_it_and_never_again(
    ledger: Ledger, again: datetime
) -> None:
    ledger.store.transact(opening(10_000))

    assert ledger.rows() == [ALICE, DEPOSIT]
    assert_conserved(ledger.rows())
    assert isinstance(outcome_of(lambda: ledger.store.transact(opening(9900, again))), AlreadyApplied)
    assert ledger.rows() == [ALICE, DEPOSIT]


def deposit(name: str) -> Row:
    return keys.entry(name, POSTED_AT, f"open-{name}", "deposit")


@pytest.mark.parametrize("kept", [keys.account, deposit], ids=["account", "deposit"])
def test_an_account_and_its_deposit_open_together_or_not_at_all(
    ledger: Ledger, kept: Callable[[str], Row]
) -> None:
    ledger.store.transact(opening(10_000))
    (other,) = (row for row in ledger.rows() if row["pk"] != kept("alice")["pk"])
    ledger.delete({name: other[name] for name in ("pk", "sk")})
    before = ledger.rows()

    assert isinstance(outcome_of(lambda: ledger.store.transact(opening(10_000))), AlreadyApplied)

    assert ledger.rows() == before != []
