from functools import partial
from typing import Any

import pytest

from settlement.core.ledger import balances
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import (
    AccountClosed,
    AccountFrozen,
    AccountInLimbo,
    AccountNotFound,
    CapExceeded,
    CaseNotCounted,
    CurrencyMismatch,
    InsufficientFunds,
    SettlementError,
)
from tests.unit.conditions import admits, applied
from tests.unit.states import account_row, found
from tests.unit.vectors import SETTLEMENT

BLOCKED: dict[str, Any] = {"limbo_cases": 1}
NO_ACCOUNT = (AccountNotFound, "there is no such account")
OTHER_CURRENCY = (CurrencyMismatch, "the account is kept in USD, not in EUR")
FROZEN: dict[str, Any] = {"frozen_at": "2026-11-20T11:00:00.000Z"}
CLOSED: dict[str, Any] = {"closed_at": "2026-11-20T11:00:00.000Z"}
IS_FROZEN = (AccountFrozen, "the account is frozen and places no holds until a person unfreezes it")
IS_CLOSED = (AccountClosed, "the account is closed")
TOO_LITTLE = (InsufficientFunds, "the account has too little available for this amount")
IN_LIMBO = (AccountInLimbo, "the account is in LIMBO and places no holds until that is resolved")
OVER_THE_CAP = (CapExceeded, "the account would hold more than this stage allows in EUR")
SPENT = (InsufficientFunds, "the account has too little available to give back what it received")

DEBIT_PAYER, CREDIT_PAYER = balances.debit_payer, balances.credit_payer
DEBIT_PAYEE = balances.debit_payee
UNCAPPED = partial(balances.credit_payee, highest_balance=None)
CAPPED = partial(balances.credit_payee, highest_balance=10_000)


def row(available: int, currency: str = "EUR", **changes: Any) -> Row:
    return account_row("alice", available, currency, **changes)


@pytest.mark.parametrize(
    ("build", "before", "change"),
    [
        pytest.param(DEBIT_PAYER, row(4820), -4820, id="the payer has just enough"),
        pytest.param(CAPPED, row(10_000 - 4772), 4772, id="the payee comes up to the cap"),
        pytest.param(CAPPED, row(0, **BLOCKED), 4772, id="a blocked payee may receive"),
        pytest.param(UNCAPPED, row(10**15), 4772, id="no cap"),
        pytest.param(DEBIT_PAYEE, row(4772), -4772, id="the payee has just enough to give back"),
        pytest.param(DEBIT_PAYEE, row(4773, **BLOCKED), -4772, id="a blocked payee gives back"),
        pytest.param(CREDIT_PAYER, row(0, **BLOCKED), 4820, id="a blocked payer gets it back"),
        pytest.param(CAPPED, row(0, **FROZEN), 4772, id="a frozen payee may receive"),
        pytest.param(DEBIT_PAYEE, row(4772, **FROZEN), -4772, id="a frozen payee gives back"),
        pytest.param(DEBIT_PAYEE, row(4772, **CLOSED), -4772, id="a closed payee gives back"),
        pytest.param(CREDIT_PAYER, row(0, **FROZEN), 4820, id="a frozen payer gets it back"),
        pytest.param(CREDIT_PAYER, row(0, **CLOSED), 4820, id="a closed payer gets it back"),
        pytest.param(CREDIT_PAYER, row(10**15), 4820, id="the payer gets it back over any cap"),
    ],
)
def test_each_balance_write_changes_the_balance_by_the_amount(build: Any, before: Row, change: int) -> None:
    write = build(SETTLEMENT)

    assert admits(write, before)
    assert applied(write, before) == before | {"available": before["available"] + change}


@pytest.mark.parametrize(
    ("build", "before", "expected"),
    [
        pytest.param(DEBIT_PAYER, None, NO_ACCOUNT, id="payer without an account"),
        pytest.param(DEBIT_PAYER, row(9999, "USD"), OTHER_CURRENCY, id="payer in another currency"),
        pytest.param(DEBIT_PAYER, row(4819), TOO_LITTLE, id="payer with a cent too little"),
        pytest.param(DEBIT_PAYER, row(9999, **BLOCKED), IN_LIMBO, id="blocked payer"),
        pytest.param(DEBIT_PAYER, row(0, **BLOCKED), IN_LIMBO, id="blocked payer with too little"),
        pytest.param(DEBIT_PAYER, row(9999, **FROZEN), IS_FROZEN, id="frozen payer"),
        pytest.param(DEBIT_PAYER, row(9999, **CLOSED), IS_CLOSED, id="closed payer"),
        pytest.param(DEBIT_PAYER, row(0, **FROZEN, **BLOCKED), IS_FROZEN, id="frozen and blocked payer"),
        pytest.param(DEBIT_PAYER, row(0, **CLOSED, **BLOCKED), IS_CLOSED, id="closed and blocked payer"),
        pytest.param(DEBIT_PAYER, row(0, "USD", **BLOCKED, **CLOSED), OTHER_CURRENCY, id="all at once"),
        pytest.param(CAPPED, row(0, **CLOSED), IS_CLOSED, id="closed payee"),
        pytest.param(UNCAPPED, row(0, **CLOSED), IS_CLOSED, id="closed payee, no cap"),
        pytest.param(CAPPED, row(10_000, "USD", **CLOSED), OTHER_CURRENCY, id="payee with every reason"),
        pytest.param(CAPPED, None, NO_ACCOUNT, id="payee without an account"),
        pytest.param(UNCAPPED, None, NO_ACCOUNT, id="payee without an account or cap"),
        pytest.param(CAPPED, row(0, "USD"), OTHER_CURRENCY, id="payee in another currency"),
        pytest.param(UNCAPPED, row(0, "USD"), OTHER_CURRENCY, id="payee in another currency, no cap"),
        pytest.param(CAPPED, row(10_000 - 4771), OVER_THE_CAP, id="a cent over the cap"),
        pytest.param(DEBIT_PAYEE, None, NO_ACCOUNT, id="deleted payee"),
        pytest.param(DEBIT_PAYEE, row(9999, "USD"), OTHER_CURRENCY, id="payee's currency changed"),
        pytest.param(DEBIT_PAYEE, row(4771), SPENT, id="payee with a cent too little"),
        pytest.param(CREDIT_PAYER, None, NO_ACCOUNT, id="deleted payer"),
        pytest.param(CREDIT_PAYER, row(0, "USD"), OTHER_CURRENCY, id="payer's currency changed"),
    ],
)
def test_a_refusal_names_party_and_reason_without_account_or_amount(
    build: Any, before: Row | None, expected: tuple[type[SettlementError], str]
) -> None:
    write = build(SETTLEMENT)
    party = "payer" if build in (DEBIT_PAYER, CREDIT_PAYER) else "payee"

    refusal = write.on_failure(found(before))

    assert not admits(write, before)
    assert type(refusal) is expected[0]
    assert str(refusal) == f"{party}: {expected[1]}"


def test_an_unexplained_refusal_is_reported_as_account_not_found() -> None:
    credit_payer = balances.credit_payer(SETTLEMENT).on_failure(found(row(0)))

    assert (type(credit_payer), str(credit_payer)) == (AccountNotFound, f"payer: {NO_ACCOUNT[1]}")


# The blocks


@pytest.mark.parametrize("before", [0, 1, 2, 10_000])
def test_a_case_blocks_and_unblocks_the_account_beside_other_cases(before: int) -> None:
    block, unblock = balances.block("alice"), balances.unblock("alice")

    blocked = applied(block, row(0) | ({"limbo_cases": before} if before else {}))

    assert blocked == row(0, limbo_cases=before + 1)
    assert applied(unblock, blocked) == row(0, limbo_cases=before)


@pytest.mark.parametrize("counted", [{}, {"limbo_cases": 0}])
def test_unblocking_an_account_without_a_case_is_refused(counted: dict[str, Any]) -> None:
    write = balances.unblock("alice")

    assert not admits(write, row(0, **counted))
    refusal = write.on_failure(found(row(0, **counted)))
    assert (type(refusal), str(refusal).partition(":")[0]) == (CaseNotCounted, "stuck party")


@pytest.mark.parametrize("counted", [{}, {"limbo_cases": 0}, {"limbo_cases": 1}, {"limbo_cases": -1}])
def test_condition_and_account_state_agree_about_blocks(counted: dict[str, Any]) -> None:
    """Only a change by hand makes the count negative, so it blocks until a person checks it."""
    standing = row(10_000, **counted)

    is_free = counted.get("limbo_cases", 0) == 0
    assert admits(balances.debit_payer(SETTLEMENT), standing) == is_free
    assert found(standing).is_blocked == (not is_free)


@pytest.mark.parametrize("mark", [balances.block, balances.unblock])
def test_blocking_works_on_any_account_and_creates_none(mark: Any) -> None:
    write = mark("alice")

    for state in ({}, FROZEN, CLOSED):
        assert admits(write, row(0, **BLOCKED, **state))
    assert not admits(write, None)
    refusal = write.on_failure(None)
    assert type(refusal) is AccountNotFound
    assert str(refusal) == "stuck party: there is no such account"
