"""Opening an account with its first deposit: both rows or neither, and never a second time."""

import pytest

from settlement.ledger import balances, entries, keys
from settlement.ledger.transaction import AlreadyApplied, Write
from settlement.model.state import AccountState
from tests.conftest import NOW, Ledger
from tests.store.saga import assert_conserved

ACCOUNT = {"pk": "ACCOUNT#carol", "sk": "BALANCE", "available": 7500, "currency": "EUR"}
DEPOSIT = {
    "pk": "DEPOSIT#open-carol",
    "sk": "open-carol:deposit",
    "step": "deposit",
    "posted_at": "2026-11-20T12:00:00.123Z",
    "debit": "external:EUR",
    "credit": "carol",
    "side": "credit",
    "amount": 7500,
    "currency": "EUR",
    "gsi1pk": "ACCOUNT#carol",
    "gsi1sk": "2026-11-20T12:00:00.123Z#open-carol:deposit",
}


def opening(amount: int = 7500, currency: str = "EUR") -> list[Write]:
    return [
        balances.open_account("carol", currency, amount),
        entries.deposit("open-carol", "carol", amount, currency, NOW),
    ]


def test_an_account_opens_with_its_deposit_and_the_entry_that_explains_it(ledger: Ledger) -> None:
    ledger.store.transact(opening())

    assert ledger.rows() == [ACCOUNT, DEPOSIT]
    assert_conserved(ledger.rows())


def test_an_empty_account_opens_without_an_entry(ledger: Ledger) -> None:
    ledger.store.transact([balances.open_account("carol", "EUR", 0)])

    assert ledger.rows() == [ACCOUNT | {"available": 0}]


@pytest.mark.parametrize(("amount", "currency"), [(7500, "EUR"), (9900, "EUR"), (7500, "USD")])
def test_an_open_account_is_never_opened_or_funded_again(ledger: Ledger, amount: int, currency: str) -> None:
    ledger.store.transact(opening())
    before = ledger.rows()

    with pytest.raises(AlreadyApplied) as applied:
        ledger.store.transact(opening(amount, currency))

    assert ledger.rows() == before
    assert applied.value.found == AccountState.from_row(ACCOUNT)


def test_an_existing_deposit_opens_no_account_without_money_behind_it(ledger: Ledger) -> None:
    ledger.put(DEPOSIT)

    with pytest.raises(AlreadyApplied) as applied:
        ledger.store.transact(opening())

    assert ledger.rows() == [DEPOSIT]
    assert applied.value.found == DEPOSIT


def test_an_existing_account_gets_no_deposit_entry(ledger: Ledger) -> None:
    ledger.put(ACCOUNT)

    with pytest.raises(AlreadyApplied):
        ledger.store.transact(opening())

    assert ledger.rows() == [ACCOUNT]


def test_a_row_is_read_by_its_key_and_absence_is_none(ledger: Ledger) -> None:
    ledger.put(ACCOUNT)

    assert ledger.store.read(keys.account("carol")) == ACCOUNT
    assert ledger.store.read(keys.account("dave")) is None
