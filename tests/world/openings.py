"""Opens accounts in one transaction instead of two orders, for speed."""

from datetime import datetime
from typing import Any

from settlement.accounts import account_orders
from settlement.accounts.order import AccountOrder, OrderKind
from settlement.core.ledger import keys
from settlement.core.ledger.transaction import Transfer, Write, put
from settlement.core.model import accounts
from settlement.core.model.errors import AccountExists
from settlement.core.model.timestamps import timestamp

PERSON: dict[str, Any] = {"by": "the tests", "reason": "a test needs the account"}


def deposit_key(account: str) -> str:
    return f"deposit-{account.replace('.', '-')}-0001"


def deposit_order(account: str, amount: int, currency: str = "EUR") -> AccountOrder:
    """`amount` is in minor units."""
    return AccountOrder(
        key=deposit_key(account),
        order=OrderKind.DEPOSIT,
        account=account,
        currency=currency,
        amount=amount,
        reference="a test",
        **PERSON,
    )


def open_order(account: str, currency: str = "EUR") -> AccountOrder:
    key = f"opening-{account.replace('.', '-')}-0001"
    return AccountOrder(key=key, order=OrderKind.OPEN, account=account, currency=currency, **PERSON)


def opening(account: str, available: int, currency: str, now: datetime) -> tuple[Write, ...]:
    first = open_order(account, currency)
    row = {
        **keys.account(account),
        "available": available,
        "currency": currency,
        "opened_at": timestamp(now),
        "last_order": first.key,
    }
    opened = (
        put(row, on_failure=lambda state: AccountExists("account")),
        account_orders.record(first, now),
    )
    if not available:
        return opened
    order = deposit_order(account, available, currency)
    moved = Transfer(debit=accounts.external(currency), credit=account, amount=available)
    return *opened, account_orders.record(order, now), account_orders.external(order, moved, now)
