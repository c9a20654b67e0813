from datetime import datetime

from settlement.accounts import account_orders
from settlement.accounts.order import AccountOrder, OrderKind
from settlement.core.ledger.transaction import Transfer, Write
from settlement.core.model import accounts
from settlement.core.model.stage_config import StageConfig


def carry_out(order: AccountOrder, now: datetime, config: StageConfig) -> tuple[Write, ...]:
    record = account_orders.record(order, now)
    match order.order:
        case OrderKind.OPEN:
            return record, account_orders.open_account(order, now)
        case OrderKind.DEPOSIT:
            return record, account_orders.deposit(order, config), _entry(order, now)
        case OrderKind.WITHDRAW:
            return record, account_orders.withdraw(order), _entry(order, now)
        case OrderKind.FREEZE:
            return record, account_orders.freeze(order, now)
        case OrderKind.UNFREEZE:
            return record, account_orders.unfreeze(order)
        case OrderKind.CLOSE:
            return record, account_orders.close(order, now)


def _entry(order: AccountOrder, now: datetime) -> Write:
    currency, amount = order.money
    debit, credit = accounts.external(currency), order.account
    if order.order is OrderKind.WITHDRAW:
        debit, credit = credit, debit
    return account_orders.external(order, Transfer(debit=debit, credit=credit, amount=amount), now)
