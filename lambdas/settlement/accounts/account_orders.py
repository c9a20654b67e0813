"""Writes of a person's order on an account.

Amounts are in minor units. The order's row and its effect are one transaction. The row's condition prevents a
second effect.
"""

from collections.abc import Callable
from datetime import datetime

from settlement.accounts.order import AccountOrder
from settlement.core.ledger import keys
from settlement.core.ledger.conditions import (
    ABSENT,
    EMPTY,
    EXISTS,
    FROZEN,
    NOT_CLOSED,
    NOT_FROZEN,
    NOT_IN_LIMBO,
    Condition,
    below_cap,
    same_currency,
    sufficient,
)
from settlement.core.ledger.failure_reasons import account_refusal, out_of_use
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, OnFailure, Transfer, Write, put, update
from settlement.core.model import accounts
from settlement.core.model.errors import (
    AccountClosed,
    AccountExists,
    AccountFrozen,
    AccountInLimbo,
    AccountNotEmpty,
    AccountNotFound,
    AccountNotFrozen,
    CapExceeded,
    IdempotencyConflict,
    InsufficientFunds,
    SettlementError,
)
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import AccountState
from settlement.core.model.timestamps import timestamp

PARTY = "account"


def record(order: AccountOrder, now: datetime) -> Write:
    def meaning(found: Row | None) -> SettlementError | AlreadyApplied:
        if found and found["request_hash"] == order.request_hash:
            return AlreadyApplied(found)
        return IdempotencyConflict.of_key(order.key)

    posted_at = timestamp(now)
    row = {**keys.order(order.key), **keys.orders_index(posted_at), **order.to_row(), "posted_at": posted_at}
    return put(row, on_failure=meaning)


def open_account(order: AccountOrder, now: datetime) -> Write:
    """Open an account by an update, so no role needs permission to put a balance."""
    return update(
        keys.account(order.account),
        "SET available = :nothing, currency = :currency, opened_at = :now, last_order = :order",
        values={":nothing": 0, ":currency": order.currency, ":now": timestamp(now), ":order": order.key},
        conditions=[ABSENT],
        on_failure=lambda state: AccountExists(PARTY),
    )


def deposit(order: AccountOrder, config: StageConfig) -> Write:
    currency, amount = order.money
    highest_balance = config.highest_balances.get(currency)

    def meaning(state: AccountState | None) -> SettlementError:
        if refusal := account_refusal(PARTY, currency, state):
            return refusal
        return AccountClosed(PARTY) if state and state.is_closed else CapExceeded.of(PARTY, currency)

    conditions: list[Condition] = [same_currency(currency), NOT_CLOSED]
    if highest_balance is not None and not accounts.is_merchant(order.account):
        conditions += [below_cap(highest_balance - amount)]
    return update(
        keys.account(order.account),
        "SET available = available + :amount",
        values={":amount": amount},
        conditions=conditions,
        on_failure=meaning,
    )


def withdraw(order: AccountOrder) -> Write:
    """Debit an account. A closed account may be debited: a reversal may have credited it."""
    currency, amount = order.money

    def meaning(state: AccountState | None) -> SettlementError:
        if refusal := account_refusal(PARTY, currency, state):
            return refusal
        if state and state.is_frozen:
            return AccountFrozen(PARTY)
        return AccountInLimbo(PARTY) if state and state.is_blocked else InsufficientFunds(PARTY)

    return update(
        keys.account(order.account),
        "SET available = available - :amount",
        values={":amount": amount},
        conditions=[same_currency(currency), sufficient(amount), NOT_IN_LIMBO, NOT_FROZEN],
        on_failure=meaning,
    )


def freeze(order: AccountOrder, now: datetime) -> Write:
    return update(
        keys.account(order.account),
        "SET frozen_at = :now, last_order = :order",
        values={":now": timestamp(now), ":order": order.key},
        conditions=[EXISTS, NOT_CLOSED, NOT_FROZEN],
        on_failure=_explained(
            lambda state: (
                AccountClosed(PARTY) if state.is_closed else AccountFrozen(PARTY, "it is frozen already")
            )
        ),
    )


def unfreeze(order: AccountOrder) -> Write:
    return update(
        keys.account(order.account),
        "SET last_order = :order REMOVE frozen_at",
        values={":order": order.key},
        conditions=[FROZEN],
        on_failure=_explained(lambda state: AccountNotFrozen(PARTY)),
    )


def close(order: AccountOrder, now: datetime) -> Write:
    return update(
        keys.account(order.account),
        "SET closed_at = :now, last_order = :order",
        values={":now": timestamp(now), ":order": order.key},
        conditions=[EMPTY, NOT_CLOSED, NOT_FROZEN, NOT_IN_LIMBO],
        on_failure=_explained(lambda state: out_of_use(PARTY, state) or AccountNotEmpty(PARTY)),
    )


def external(order: AccountOrder, moved: Transfer, now: datetime) -> Write:
    """Build the entry of a deposit or withdrawal. The order's row detects a replay."""
    posted_at = timestamp(now)
    row = {
        **keys.entry(order.account, posted_at, order.key, order.order),
        "step": order.order.value,
        "posted_at": posted_at,
        "request_hash": order.request_hash,
        "debit": moved.debit,
        "credit": moved.credit,
        "side": "credit" if moved.credit == order.account else "debit",
        "amount": moved.amount,
        "currency": order.currency,
    }
    return put(row, on_failure=lambda entry: IdempotencyConflict.of_key(order.key))


def _explained(why: Callable[[AccountState], SettlementError]) -> OnFailure:
    return lambda state: AccountNotFound(PARTY) if state is None else why(state)
