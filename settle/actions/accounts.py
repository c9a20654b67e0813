"""A person's orders on accounts, carried out by the function that may."""

import hashlib
import json
import secrets
from typing import Any

from settle.actions.order import caller
from settle.exit_codes import CommandFailed, Exit
from settle.machines import explain
from settle.queries import statement
from settle.stack import Stack
from settlement.model import money
from settlement.model.account_order import AccountOrder, OrderKind, parse_account_order
from settlement.model.accounts import is_merchant
from settlement.model.errors import InvalidRequest

OPENS = "opens the account"
"""The reason, and the reference of the first deposit, if the person gives none."""

_DIGITS = 18
"""The digits of the account's hash in the keys of its first orders: a statement shows them whole."""

_CODES = {
    "InvalidRequest": Exit.USAGE,
    "AccountNotFound": Exit.NOT_FOUND,
    "AccountExists": Exit.CONFLICT,
    "IdempotencyConflict": Exit.CONFLICT,
    **dict.fromkeys(
        (
            *("AccountClosed", "AccountFrozen", "AccountInLimbo", "AccountNotEmpty", "AccountNotFrozen"),
            *("CapExceeded", "CurrencyMismatch", "InsufficientFunds"),
        ),
        Exit.REFUSED,
    ),
}
"""The exit codes of the function's refusals. After any other error the outcome is unknown."""


def mint(order: OrderKind) -> str:
    """Return a new key for an order."""
    return f"{order}-{secrets.token_hex(8)}"


def give(stack: Stack, order: OrderKind, by: str | None, **fields: str) -> dict[str, Any]:
    """Give an order, and return the function's answer. Safe to repeat with the same key.

    Without `by`, the caller's AWS identity gives it.
    """
    _check(stack, order, fields)
    return _send(stack, order, fields | {"by": by or caller(stack)})


def open_account(
    stack: Stack, account: str, currency: str, deposit: str, *, by: str | None = None, reason: str = OPENS
) -> dict[str, Any]:
    """Open a customer's account, and make its first deposit, if it is not zero. Safe to repeat.

    They are two orders, whose keys follow from the account: another first deposit is a conflict.
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
    by = by or caller(stack)
    try:
        for order, fields in orders.items():
            _send(stack, order, fields | {"by": by})
    except CommandFailed as failed:
        if failed.code is not Exit.CONFLICT:
            raise
        raise CommandFailed(
            Exit.CONFLICT, f"account: {account} is open already, by an order of other content ({failed})"
        ) from failed
    return statement.show(stack, account)


def _amount(stack: Stack, currency: str, deposit: str) -> int:
    """Return a first deposit in minor units. Raises CommandFailed."""
    try:
        return money.parse(deposit, stack.config.currencies[currency])
    except ValueError as expected:
        raise CommandFailed(Exit.USAGE, f"deposit: {expected}") from expected


def _check(stack: Stack, order: OrderKind, fields: dict[str, str]) -> AccountOrder:
    """Refuse a malformed order before anything is looked up or sent."""
    try:
        return parse_account_order({"order": order, "by": "not looked up yet"} | fields, stack.config)
    except InvalidRequest as refusal:
        raise CommandFailed(Exit.USAGE, str(refusal)) from refusal


def _ensure_below_cap(stack: Stack, deposit: AccountOrder) -> None:
    """Refuse a first deposit that no account may hold, so that none is opened for it."""
    currency, amount = deposit.money
    highest = stack.config.highest_balances.get(currency)
    if highest is not None and amount > highest and not is_merchant(deposit.account):
        raise CommandFailed(Exit.USAGE, f"deposit: is above this stage's highest balance in {currency}")


def _send(stack: Stack, order: OrderKind, fields: dict[str, str]) -> dict[str, Any]:
    if "AdministerAccountArn" not in stack.outputs:
        raise CommandFailed(
            Exit.FAILED,
            f"stack {stack.name}: has no output AdministerAccountArn, as it is too old; deploy it again",
        )
    answer = stack.client("lambda").invoke(
        FunctionName=stack.outputs["AdministerAccountArn"],
        InvocationType="RequestResponse",
        Payload=json.dumps({"order": order} | fields),
    )
    payload = answer["Payload"].read().decode()
    if "FunctionError" in answer:
        raise _failure(order, fields["key"], payload)
    done: dict[str, Any] = json.loads(payload)
    return done


def _failure(order: OrderKind, key: str, payload: str) -> CommandFailed:
    """Return a refusal, or an unknown outcome, after which the same order may be given again."""
    name = json.loads(payload).get("errorType")
    if code := _CODES.get(name):
        return CommandFailed(code, f"{order}: {name}: {explain(payload)}")
    return CommandFailed(
        Exit.FAILED,
        f"{order}: not carried out, or not known to be: {explain(payload)}; repeat it with its key {key}",
    )
