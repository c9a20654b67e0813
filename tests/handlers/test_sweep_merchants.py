"""SweepMerchants, and the release to a merchant and its refund: received, available, given back."""

from typing import Any

import pytest

from handlers import sweep_merchants
from settlement.adapters.dynamodb import Store
from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.model.errors import (
    AccountNotFound,
    CurrencyMismatch,
    InsufficientFunds,
    StepFenced,
    StoreUnavailable,
)
from settlement.policy import sweeps
from tests.handlers.conftest import Counted
from tests.world.constants import CLAIMED_AT, KEY, ORDER, WIRE
from tests.world.functions import FORWARD, Calls, Context
from tests.world.services import released

SHOP = WIRE | {"payee": "merchant.shop"}
ENTRY = keys.entry("merchant.shop", CLAIMED_AT, KEY, "release")


def sweep(*entries: Row) -> None:
    sweep_merchants.handler(released(*entries), Context())


@pytest.fixture
def paid(calls: Calls) -> Calls:
    """A settlement with a merchant, who has nothing: released, and not swept."""
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("merchant.shop", 0)
    for state in FORWARD[: FORWARD.index("ReleaseFunds") + 1]:
        calls(state, SHOP, claimed_at=CLAIMED_AT)
    return calls


def reverse(calls: Calls) -> dict[str, Any]:
    return calls.begin(settlement=SHOP, reversal=ORDER | {"expected_status": "PROCESSING"})


def test_a_release_to_a_merchant_leaves_its_balance_alone(paid: Calls) -> None:
    assert paid.account("merchant.shop")["available"] == 0
    assert paid.ledger.row(ENTRY)
    assert (paid.row()["escrow"], paid.row()["release_at"]) == (48, CLAIMED_AT)


def test_the_highest_balance_of_the_stage_does_not_stop_a_merchants_release(calls: Calls) -> None:
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("merchant.shop", 100_000_000)

    for state in FORWARD[: FORWARD.index("ReleaseFunds") + 1]:
        calls(state, SHOP, claimed_at=CLAIMED_AT)

    assert calls.row()["release_at"] == CLAIMED_AT


@pytest.mark.parametrize(("currency", "error"), [(None, AccountNotFound), ("USD", CurrencyMismatch)])
def test_a_merchant_who_cannot_be_paid_is_refused_by_name(
    calls: Calls, currency: str | None, error: type[Exception]
) -> None:
    """No order does this to an account: HoldFunds has found it there, and in this currency."""
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("merchant.shop", 0)
    for state in FORWARD[: FORWARD.index("ReleaseFunds")]:
        calls(state, SHOP, claimed_at=CLAIMED_AT)
    calls.close("merchant.shop")
    if currency:
        calls.ledger.open("merchant.shop", 0, currency)

    with calls.writes_nothing(), pytest.raises(error, match=r"^payee: "):
        calls("ReleaseFunds", SHOP)


def test_the_streams_record_makes_a_release_available_once(paid: Calls, counted: Counted) -> None:
    counted()

    sweep(ENTRY, ENTRY)
    sweep(ENTRY)

    assert paid.account("merchant.shop")["available"] == 4772
    assert counted() == {"StepCalled": 2, "MerchantSwept": 1}


def test_a_record_of_an_entry_that_is_swept_already_writes_nothing(paid: Calls) -> None:
    sweep(ENTRY)

    with paid.writes_nothing():
        sweep(ENTRY)


def test_one_account_that_cannot_be_swept_does_not_keep_another_waiting(paid: Calls) -> None:
    gone = {**ENTRY, "pk": "ENTRIES#merchant.gone#3"}
    entry = paid.ledger.row(ENTRY)
    assert entry
    paid.ledger.put(entry | gone)

    with pytest.raises(AccountNotFound):
        sweep(gone, ENTRY)

    assert paid.account("merchant.shop")["available"] == 4772


@pytest.mark.parametrize(
    "changed",
    [{"amount": "many"}, {"amount": {"1"}}, {"amount": None}, {"currency": None}],
    ids=["text", "set", "no amount", "no currency"],
)
def test_an_entry_that_no_function_has_put_does_not_keep_another_merchant_waiting(
    paid: Calls, changed: Row
) -> None:
    bad = {**ENTRY, "pk": "ENTRIES#merchant.bad#3"}
    entry = paid.ledger.row(ENTRY)
    assert entry
    paid.ledger.put({name: value for name, value in {**entry, **bad, **changed}.items() if value})

    with pytest.raises((LookupError, TypeError, ValueError)):
        sweep(bad, ENTRY)

    assert paid.account("merchant.shop")["available"] == 4772


def test_a_batch_comes_again_if_the_table_gives_no_answer(
    paid: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*_: Any) -> Any:
        raise StoreUnavailable("DynamoDB: down")

    monkeypatch.setattr(Store, "transact", unavailable)

    with paid.writes_nothing(), pytest.raises(StoreUnavailable):
        sweep(ENTRY)


def test_a_refund_finds_its_release_although_no_sweep_has_come_to_it(paid: Calls) -> None:
    found = reverse(paid)

    paid.reverse("ReclaimFunds", found, SHOP)

    assert paid.account("merchant.shop")["available"] == 0
    assert paid.row()["release_reversed_at"] == CLAIMED_AT
    with paid.writes_nothing():
        sweep(ENTRY)
        paid.reverse("ReclaimFunds", found, SHOP)


def test_a_refund_of_what_the_merchant_has_spent_is_refused(paid: Calls) -> None:
    found = reverse(paid)
    sweep(ENTRY)
    paid.ledger.open("merchant.shop", 4771)

    with paid.writes_nothing(), pytest.raises(InsufficientFunds, match="give back"):
        paid.reverse("ReclaimFunds", found, SHOP)


def test_a_refund_of_a_settlement_that_is_not_reversed_is_fenced(paid: Calls) -> None:
    with pytest.raises(StepFenced):
        paid("ReclaimFunds", SHOP, execution="compensation-1")

    assert "release_reversed_at" not in paid.row()


def test_a_refund_to_a_customer_reads_nothing_but_what_it_needs(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = calls.reopened("ReclaimFunds")
    monkeypatch.setattr(sweeps, "before_refund", lambda state: pytest.fail("a customer is not swept"))

    calls.reverse("ReclaimFunds", found)

    assert calls.account("bob")["available"] == 500
