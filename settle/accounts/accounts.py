import hashlib
import secrets
from typing import Any

from settle import order as orders_of
from settle.accounts import statement
from settle.exit_codes import CommandFailed, Exit
from settle.order import UNPROVEN
from settle.stack import Stack
from settlement.accounts.order import AccountOrder, OrderKind, parse_account_order
from settlement.core.model import money
from settlement.core.model.accounts import is_merchant
from settlement.core.model.errors import InvalidRequest

OPENS = "opens the account"

_DIGITS = 18
"""Digits of the account's hash in the keys of its first orders. Statements show such keys whole."""


def mint(order: OrderKind) -> str:
    return f"{order}-{secrets.token_hex(8)}"


def give(stack: Stack, order: OrderKind, **fields: str) -> dict[str, Any]:
    """Give an order on an account. Safe to repeat with the same key."""
    _check(stack, order, fields)
    return orders_of.give(stack, order, {"order": order, **fields})


def open_account(
    stack: Stack, account: str, currency: str, deposit: str, *, reason: str = OPENS
) -> dict[str, Any]:
    """Open a customer's account with a first deposit. Safe to repeat.

    Both orders' keys derive from the account, so a different first deposit is a conflict.
    """
    name = hashlib.sha256(account.encode()).hexdigest()[:_DIGITS]
    opening = {"key": f"open-{name}", "account": account, "currency": currency, "reason": reason}
    orders = {OrderKind.OPEN: opening}
    _check(stack, OrderKind.OPEN, opening)
    if _amount(stack, currency, deposit):
        orders[OrderKind.DEPOSIT] = opening | {
            "key": f"first-{name}",
            "amount": deposit,
            "reference": OPENS,
        }
        _ensure_below_cap(stack, _check(stack, OrderKind.DEPOSIT, orders[OrderKind.DEPOSIT]))
    try:
        for order, fields in orders.items():
            orders_of.give(stack, order, {"order": order, **fields})
    except CommandFailed as failed:
        if failed.code is not Exit.CONFLICT:
            raise
        raise CommandFailed(
            Exit.CONFLICT, f"account: {account} is open already, by an order of other content ({failed})"
        ) from failed
    return statement.show(stack, account)


def _amount(stack: Stack, currency: str, deposit: str) -> int:
    try:
        return money.parse(deposit, stack.config.currencies[currency])
    except ValueError as expected:
        raise CommandFailed(Exit.USAGE, f"deposit: {expected}") from expected


def _check(stack: Stack, order: OrderKind, fields: dict[str, str]) -> AccountOrder:
    try:
        return parse_account_order({"order": order} | fields, UNPROVEN, stack.config)
    except InvalidRequest as refusal:
        raise CommandFailed(Exit.USAGE, str(refusal)) from refusal


def _ensure_below_cap(stack: Stack, deposit: AccountOrder) -> None:
    currency, amount = deposit.money
    highest = stack.config.highest_balances.get(currency)
    if highest is not None and amount > highest and not is_merchant(deposit.account):
        raise CommandFailed(Exit.USAGE, f"deposit: is above this stage's highest balance in {currency}")
