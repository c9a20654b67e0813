"""The writes of the parties' balances: who may pay and be paid, and the meaning of a refusal."""

from typing import Any

import pytest

from settlement.ledger import balances
from settlement.ledger.keys import Row
from settlement.model.errors import (
    AccountInLimbo,
    AccountNotFound,
    CapExceeded,
    CurrencyMismatch,
    InsufficientFunds,
)
from tests.unit import states
from tests.unit.conditions import admits
from tests.unit.states import found
from tests.unit.vectors import SETTLEMENT

MESSAGES: dict[type[Exception], str] = {
    AccountNotFound: "there is no such account",
    CurrencyMismatch: "the account is kept in USD, not in EUR",
    InsufficientFunds: "the account has too little available for this amount",
    AccountInLimbo: "the account is in LIMBO and places no holds until that is resolved",
    CapExceeded: "the account would hold more than this stage allows in EUR",
}
"""The exact text of each error: it has no payload, so all of it may be logged."""


def account_row(available: int, currency: str = "EUR", **changes: Any) -> Row:
    return states.account_row("alice", available, currency, **changes)


LIMBO: dict[str, Any] = {"limbo_keys": {"order-2026-000001"}}


@pytest.mark.parametrize("row", [account_row(4820), account_row(4821)])
def test_a_payer_with_enough_is_debited(row: Row) -> None:
    assert admits(balances.debit_payer(SETTLEMENT), row)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param(None, AccountNotFound, id="no account"),
        pytest.param(account_row(9999, "USD"), CurrencyMismatch, id="other currency"),
        pytest.param(account_row(4819), InsufficientFunds, id="a cent too little"),
        pytest.param(account_row(0), InsufficientFunds, id="nothing"),
        pytest.param(account_row(9999, **LIMBO), AccountInLimbo, id="in LIMBO"),
        pytest.param(account_row(0, **LIMBO), AccountInLimbo, id="in LIMBO with too little"),
        pytest.param(account_row(0, "USD", **LIMBO), CurrencyMismatch, id="all at once"),
    ],
)
def test_a_payer_who_cannot_pay_is_told_why(row: Row | None, expected: type[Exception]) -> None:
    write = balances.debit_payer(SETTLEMENT)

    assert not admits(write, row)
    refusal = write.on_failure(found(row))
    assert type(refusal) is expected
    assert str(refusal) == f"payer: {MESSAGES[expected]}"


@pytest.mark.parametrize("row", [account_row(777_777_777, **LIMBO), account_row(777)])
def test_a_refusal_does_not_tell_the_balance(row: Row) -> None:
    assert "777" not in str(balances.debit_payer(SETTLEMENT).on_failure(found(row)))
    assert "777" not in str(balances.credit_payee(SETTLEMENT, 800).on_failure(found(row)))


@pytest.mark.parametrize(
    ("row", "cap"),
    [
        pytest.param(account_row(10_000 - 4772), 10_000, id="up to the cap"),
        pytest.param(account_row(0, **LIMBO), 10_000, id="in LIMBO"),
        pytest.param(account_row(10**15), None, id="no cap"),
    ],
)
def test_a_payee_is_credited(row: Row, cap: int | None) -> None:
    assert admits(balances.credit_payee(SETTLEMENT, cap), row)


@pytest.mark.parametrize(
    ("row", "cap", "expected"),
    [
        pytest.param(None, 10_000, AccountNotFound, id="no account"),
        pytest.param(None, None, AccountNotFound, id="no account, no cap"),
        pytest.param(account_row(0, "USD"), 10_000, CurrencyMismatch, id="other currency"),
        pytest.param(account_row(0, "USD"), None, CurrencyMismatch, id="other currency, no cap"),
        pytest.param(account_row(10_000 - 4771), 10_000, CapExceeded, id="a cent over the cap"),
        pytest.param(account_row(0), 4771, CapExceeded, id="a cap below the credit itself"),
    ],
)
def test_a_payee_who_cannot_receive_is_told_why(
    row: Row | None, cap: int | None, expected: type[Exception]
) -> None:
    write = balances.credit_payee(SETTLEMENT, cap)

    assert not admits(write, row)
    refusal = write.on_failure(found(row))
    assert type(refusal) is expected
    assert str(refusal) == f"payee: {MESSAGES[expected]}"
