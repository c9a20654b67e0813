from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from settlement.accounts import account_orders
from settlement.accounts.administration import carry_out
from settlement.accounts.order import AccountOrder, OrderKind
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Write
from settlement.core.model import errors
from settlement.core.model.errors import IdempotencyConflict, SettlementError
from settlement.core.model.status import REVERSIBLE, Step
from settlement.core.model.timestamps import timestamp
from tests.unit.conditions import admits, applied
from tests.unit.states import account_row, found
from tests.unit.vectors import (
    CLOSE,
    CONFIG,
    DEPOSIT,
    FREEZE,
    OPENING,
    ORDERS_ON_ACCOUNTS,
    TO_A_MERCHANT,
    UNFREEZE,
    WITHDRAWAL,
)
from tests.world.environment import NOW
from tests.world.saga import LATER

AT = timestamp(NOW)
CAP = CONFIG.highest_balances["EUR"]
FROZEN: Row = {"frozen_at": "2026-11-20T11:00:00.000Z"}
CLOSED: Row = {"closed_at": "2026-11-20T11:00:00.000Z"}
BLOCKED: Row = {"limbo_cases": 1}


def on(available: int, currency: str = "EUR", **changes: Any) -> Row:
    return account_row("alice", available, currency, **changes)


def of_account(order: AccountOrder) -> Write:
    return carry_out(order, NOW, CONFIG)[1]


CARRIED_OUT = [
    pytest.param(DEPOSIT, on(0), {"available": 10_000}, id="deposit"),
    pytest.param(DEPOSIT, on(CAP - 10_000), {"available": CAP}, id="deposit up to the cap"),
    pytest.param(TO_A_MERCHANT, on(CAP), {"available": CAP + 10_000}, id="a merchant has no cap"),
    pytest.param(DEPOSIT, on(0, **FROZEN), {"available": 10_000}, id="a frozen account may receive"),
    pytest.param(DEPOSIT, on(0, **BLOCKED), {"available": 10_000}, id="a blocked account may receive"),
    pytest.param(WITHDRAWAL, on(500), {"available": 0}, id="withdraw everything"),
    pytest.param(WITHDRAWAL, on(500, **CLOSED), {"available": 0}, id="empty a closed account again"),
    pytest.param(FREEZE, on(500), {"frozen_at": AT}, id="freeze"),
    pytest.param(FREEZE, on(500, **BLOCKED), {"frozen_at": AT}, id="freeze a blocked account"),
    pytest.param(UNFREEZE, on(5, **FROZEN), {"frozen_at": None}, id="unfreeze"),
    pytest.param(CLOSE, on(0), {"closed_at": AT}, id="close"),
]


@pytest.mark.parametrize(("order", "before", "change"), CARRIED_OUT)
def test_an_order_changes_only_its_own_attributes_of_the_account(
    order: AccountOrder, before: Row, change: Row
) -> None:
    write = of_account(order)

    assert admits(write, before)
    names_it = {} if order in (DEPOSIT, TO_A_MERCHANT, WITHDRAWAL) else {"last_order": order.key}
    after = {name: value for name, value in (before | change | names_it).items() if value is not None}
    assert applied(write, before) == after


def test_an_account_is_opened_empty_with_its_orders_time() -> None:
    record, opened = carry_out(OPENING, NOW, CONFIG)

    assert admits(opened, None)
    assert applied(opened, None) == on(0, opened_at=AT, last_order=OPENING.key)
    assert record.parameters["Item"]["posted_at"] == AT


REFUSED = [
    pytest.param(OPENING, on(0), errors.AccountExists, id="open it again"),
    pytest.param(OPENING, on(0, **CLOSED), errors.AccountExists, id="open a closed one again"),
    pytest.param(DEPOSIT, None, errors.AccountNotFound, id="deposit to no account"),
    pytest.param(DEPOSIT, on(0, "USD", **CLOSED), errors.CurrencyMismatch, id="deposit of another currency"),
    pytest.param(DEPOSIT, on(CAP, **CLOSED), errors.AccountClosed, id="deposit to a closed account"),
    pytest.param(TO_A_MERCHANT, on(0, **CLOSED), errors.AccountClosed, id="deposit to a closed merchant"),
    pytest.param(DEPOSIT, on(CAP - 9_999), errors.CapExceeded, id="deposit of a cent too much"),
    pytest.param(WITHDRAWAL, None, errors.AccountNotFound, id="withdraw from no account"),
    pytest.param(WITHDRAWAL, on(0, "USD", **FROZEN), errors.CurrencyMismatch, id="withdraw another currency"),
    pytest.param(WITHDRAWAL, on(500, **FROZEN), errors.AccountFrozen, id="withdraw from a frozen account"),
    pytest.param(WITHDRAWAL, on(500, **BLOCKED), errors.AccountInLimbo, id="withdraw from a blocked account"),
    pytest.param(WITHDRAWAL, on(0, **BLOCKED, **FROZEN), errors.AccountFrozen, id="frozen and blocked"),
    pytest.param(WITHDRAWAL, on(499), errors.InsufficientFunds, id="withdraw a cent too much"),
    pytest.param(FREEZE, None, errors.AccountNotFound, id="freeze no account"),
    pytest.param(FREEZE, on(0, **CLOSED), errors.AccountClosed, id="freeze a closed account"),
    pytest.param(FREEZE, on(0, **FROZEN), errors.AccountFrozen, id="freeze it again"),
    pytest.param(UNFREEZE, None, errors.AccountNotFound, id="unfreeze no account"),
    pytest.param(UNFREEZE, on(0), errors.AccountNotFrozen, id="unfreeze what is not frozen"),
    pytest.param(UNFREEZE, on(0, **CLOSED), errors.AccountNotFrozen, id="unfreeze a closed account"),
    pytest.param(CLOSE, None, errors.AccountNotFound, id="close no account"),
    pytest.param(CLOSE, on(1), errors.AccountNotEmpty, id="close it with a cent in it"),
    pytest.param(CLOSE, on(0, **CLOSED), errors.AccountClosed, id="close it again"),
    pytest.param(CLOSE, on(0, **FROZEN), errors.AccountFrozen, id="close a frozen account"),
    pytest.param(CLOSE, on(0, **BLOCKED), errors.AccountInLimbo, id="close a blocked account"),
]


@pytest.mark.parametrize(("order", "before", "refusal"), REFUSED)
def test_an_order_that_the_account_forbids_is_refused(
    order: AccountOrder, before: Row | None, refusal: type[SettlementError]
) -> None:
    write = of_account(order)

    told = write.on_failure(found(before))

    assert not admits(write, before)
    assert type(told) is refusal
    assert str(told).startswith("account: ")


# The order's row


@pytest.mark.parametrize("order", ORDERS_ON_ACCOUNTS, ids=lambda order: order.order)
def test_a_repeated_order_is_replayed_and_a_changed_one_conflicts(order: AccountOrder) -> None:
    record = account_orders.record(order, LATER)
    earlier = dict(account_orders.record(order, NOW).parameters["Item"])

    replayed = record.on_failure(earlier)

    assert not admits(record, earlier)
    assert isinstance(replayed, AlreadyApplied)
    assert replayed.found == earlier
    for other in (None, earlier | {"request_hash": "another"}):
        assert type(record.on_failure(other)) is IdempotencyConflict


@pytest.mark.parametrize("order", ORDERS_ON_ACCOUNTS, ids=lambda order: order.order)
def test_the_order_is_written_first_and_reads_back_equal(order: AccountOrder) -> None:
    row = carry_out(order, NOW, CONFIG)[0].parameters["Item"]

    assert {name: row[name] for name in ("pk", "sk")} == keys.order(order.key)
    assert AccountOrder.from_row(row) == order
    assert row["request_hash"] == order.request_hash


@pytest.mark.parametrize("order", [DEPOSIT, WITHDRAWAL], ids=lambda order: order.order)
def test_an_entry_has_the_time_and_hash_of_its_order(order: AccountOrder) -> None:
    record, _, entry = (write.parameters.get("Item", {}) for write in carry_out(order, NOW, CONFIG))

    assert (entry["posted_at"], entry["request_hash"]) == (record["posted_at"], record["request_hash"])
    assert {name: entry[name] for name in ("pk", "sk")} == keys.entry("alice", AT, order.key, order.order)
    parties = [entry["debit"], entry["credit"]]
    assert parties == (["external:EUR", "alice"] if order is DEPOSIT else ["alice", "external:EUR"])


@pytest.mark.parametrize("order", [OPENING, FREEZE, UNFREEZE, CLOSE], ids=lambda order: order.order)
def test_an_order_that_moves_no_money_has_no_entry(order: AccountOrder) -> None:
    assert len(carry_out(order, NOW, CONFIG)) == 2
    with pytest.raises(ValueError, match="moves no money"):
        _ = order.money


def test_no_settlement_step_has_the_name_of_an_order() -> None:
    """An entry is named by key and step, so an order and a settlement with one key could share it."""
    steps = {*Step, *(step.reversal for step in REVERSIBLE), "reverse"}
    prefixes = ("limbo:", "resolve:", "compensate:")

    assert not steps & {*OrderKind}
    assert not any(order.startswith(prefixes) for order in OrderKind)


# The canonical form

OTHERWISE: dict[str, Any] = {
    "key": "deposit-account-0002",
    "order": OrderKind.WITHDRAW,
    "account": "bob",
    "currency": "JPY",
    "amount": 10_001,
    "reference": "bank-0002",
    "by": "another person",
    "reason": "another reason",
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_each_field_of_an_order_is_in_its_hash(name: str) -> None:
    other = replace(DEPOSIT, **{name: OTHERWISE[name]})

    assert other.request_hash != DEPOSIT.request_hash


def test_the_hash_of_an_order_never_changes() -> None:
    """The rows of recorded orders carry the hash, which a repeated order must match."""
    assert DEPOSIT.request_hash == "fb4a8f5bfe345294ba11724421fbd1d27af1d4a2bd7a63875514be01821bdb01"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda row: row.pop("reason"),
        lambda row: row.update(order="melt"),
        lambda row: row.update(amount="10000"),
        lambda row: row.update(account=7),
    ],
)
def test_a_malformed_row_of_an_order_is_named(spoil: Callable[[Row], object]) -> None:
    row = dict(account_orders.record(DEPOSIT, NOW).parameters["Item"])
    spoil(row)

    with pytest.raises(ValueError, match=r"^ORDER#deposit-account-0001: "):
        AccountOrder.from_row(row)
