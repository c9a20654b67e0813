import hashlib

from settle.placeholder import REASON
from settle.stack import Stack
from settlement.accounts.order import OrderKind
from settlement.bank import booking
from settlement.bank.matching import Finding, Kind, Order
from settlement.bank.statement import Side
from settlement.core.model import money

ACCOUNT = "<account>"
"""Placeholder in a command for the account, which the bank does not name."""

KEY_MAX = 64
_DIGITS = 24
_NAMES = {Side.IN: OrderKind.DEPOSIT, Side.OUT: OrderKind.WITHDRAW}


def commands(stack: Stack, one: Finding) -> list[str]:
    """Return the commands that correct a finding. Empty: a person must decide.

    Keys derive from the line or order, so a repeat books nothing. Accounts come from orders, never from a
    line's text, which the payer chooses.
    """
    match one.kind:
        case Kind.ONLY_BANK | Kind.BANK_TWICE:
            return _booked(stack, one, ACCOUNT)
        case Kind.RETURN if one.order:
            return _booked(stack, one, one.order.account)
        case Kind.BOOKS_TWICE if one.order:
            return _opposite(stack, one.order)
    return []


def _booked(stack: Stack, one: Finding, account: str) -> list[str]:
    line = one.line
    name = line and (one.order.reference if one.order else line.reference or line.bank_reference)
    if not line or not name:
        return []
    return _order(stack, line.side, account, line.amount, line.currency, name, booking.key_of(line.identity))


def _opposite(stack: Stack, order: Order) -> list[str]:
    key = f"undo-{order.key}"
    if len(key) > KEY_MAX:
        key = f"undo-{hashlib.sha256(order.key.encode()).hexdigest()[:_DIGITS]}"
    return _order(stack, order.side.other, order.account, order.amount, order.currency, order.reference, key)


def _order(  # noqa: PLR0913, PLR0917
    stack: Stack, side: Side, account: str, amount: int, currency: str, reference: str, key: str
) -> list[str]:
    if not reference.isprintable():  # it could not be pasted as it is
        return []
    told = money.render(amount, stack.config.currencies[currency])
    moved = {"currency": currency, "reference": reference, "reason": REASON, "key": key}
    return [stack.command(f"account {_NAMES[side]}", account, told, **moved)]
