"""The orders that mend a difference, as commands to paste. A person checks them first."""

from settle.placeholder import REASON
from settle.stack import Stack
from settlement.accounts.order import OrderKind
from settlement.bank.matching import Finding, Kind, Order
from settlement.bank.statement import Side
from settlement.core.model import money

ACCOUNT = "<account>"
"""A placeholder: the bank does not say whose money it is."""

_DIGITS = 24
_NAMES = {Side.IN: OrderKind.DEPOSIT, Side.OUT: OrderKind.WITHDRAW}


def commands(stack: Stack, one: Finding) -> list[str]:
    """Return the orders after which a finding is gone; empty if no order mends it.

    Their keys follow from the line or order: run twice, they book once.
    """
    opposite = [_opposite(stack, one.order)] if one.order else []
    match one.kind:
        case Kind.ONLY_BANK | Kind.RETURN | Kind.BANK_TWICE:
            return _booked(stack, one)
        case Kind.AMOUNT | Kind.CURRENCY:
            return [*opposite, *_booked(stack, one)]
        case Kind.ONLY_BOOKS | Kind.BOOKS_TWICE:
            return opposite
    return []


def _booked(stack: Stack, one: Finding) -> list[str]:
    """Return the order that a line lacks. Without a reference no order could be its own."""
    line = one.line
    if line is None or not (line.reference or line.bank_reference):
        return []
    name = one.order.reference if one.order else line.reference or line.bank_reference
    account = one.order.account if one.order else ACCOUNT
    key = f"bank-{line.identity[:_DIGITS]}"
    return [_order(stack, line.side, account, line.amount, line.currency, name, key)]


def _opposite(stack: Stack, order: Order) -> str:
    key = f"undo-{order.key}"[:64]
    side = order.side.other
    return _order(stack, side, order.account, order.amount, order.currency, order.reference, key)


def _order(  # noqa: PLR0913, PLR0917
    stack: Stack, side: Side, account: str, amount: int, currency: str, reference: str, key: str
) -> str:
    told = money.render(amount, stack.config.currencies[currency])
    moved = {"currency": currency, "reference": reference, "reason": REASON, "key": key}
    return stack.command(f"account {_NAMES[side]}", account, told, **moved)
