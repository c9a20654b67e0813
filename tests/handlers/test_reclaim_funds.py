"""ReclaimFunds: the payee returns the net amount, if its balance covers it."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.model.errors import AccountNotFound, CurrencyMismatch, InsufficientFunds
from tests.handlers.calls import KEY, LATER_AT, REJECTED_BY_KYC, Calls


def test_the_first_call_takes_the_net_amount_back(calls: Calls, later: Callable[[], None]) -> None:
    found = calls.reopened("ReclaimFunds")
    before = calls.row()
    later()

    assert calls.reverse("ReclaimFunds", found) is None

    assert calls.entry("compensate:release") == {
        "posted_at": LATER_AT,
        "debit": "bob",
        "credit": f"escrow:{KEY}",
        "side": "debit",
        "amount": 4772,
        "currency": "EUR",
        "gsi1pk": "ACCOUNT#bob",
        "gsi1sk": f"{LATER_AT}#{KEY}:compensate:release",
    }
    assert calls.row() == before | {"escrow": 4820, "reversed": {"fee", "release"}}
    assert calls.account("bob") == {"available": 500, "currency": "EUR"}
    assert calls.account("alice") == {"available": 5180, "currency": "EUR"}


def test_the_payee_gives_back_to_the_last_cent_and_in_limbo_too(calls: Calls) -> None:
    found = calls.reopened("ReclaimFunds")
    calls.ledger.open("bob", 4772, limbo_keys={"order-2026-000099"})

    calls.reverse("ReclaimFunds", found)

    assert calls.account("bob") == {"available": 0, "currency": "EUR", "limbo_keys": {"order-2026-000099"}}


@pytest.mark.parametrize(
    ("payee", "error", "message"),
    [
        ({"available": 4771}, InsufficientFunds, "payee: the account has too little available to give back"),
        ({"available": 0}, InsufficientFunds, "payee: the account has too little available to give back"),
        ({"available": 9000, "currency": "USD"}, CurrencyMismatch, "payee: the account is kept in USD"),
        (None, AccountNotFound, "payee: there is no such account"),
    ],
)
@pytest.mark.parametrize("state", ["CollectFee", "ReleaseFunds"])
def test_a_payee_who_cannot_give_back_is_refused_by_name(
    calls: Calls,
    payee: dict[str, Any] | None,
    error: type[Exception],
    message: str,
    state: str,
    counted: Callable[[], dict[str, float]],
) -> None:
    if state == "CollectFee":
        found = calls.reopened("ReclaimFunds")
    else:
        calls.after(state)
        found = calls.begin(error=REJECTED_BY_KYC)
    calls.close("bob")
    if payee:
        calls.ledger.open("bob", **payee)
    counted()

    with calls.writes_nothing(), pytest.raises(error, match=f"^{message}"):
        calls.reverse("ReclaimFunds", found)

    assert counted() == {"StepCalled": 1, error.__name__: 1}
