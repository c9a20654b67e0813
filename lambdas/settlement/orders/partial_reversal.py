from datetime import datetime

from settlement.core.ledger import balances, entries
from settlement.core.ledger.transaction import Transfer, Write
from settlement.core.model import accounts
from settlement.core.model.errors import PartRefused
from settlement.core.model.settlement import Settlement
from settlement.orders import parts
from settlement.orders.requests import PartialReversal, part_name, refund_name


def reverse_part(
    settlement: Settlement, order: PartialReversal, now: datetime, layout: int
) -> tuple[Write, ...]:
    """Build a reversal in part. The money passes through the escrow. The stage keeps the fee.

    `layout` is the row's layout afterwards. Raises PartRefused for an amount above the release.
    """
    if order.amount > settlement.net:
        raise PartRefused(parts.ABOVE_REST)
    escrow, amount = accounts.escrow(settlement.key), order.amount
    taken = Transfer(debit=settlement.payee, credit=escrow, amount=amount)
    given = Transfer(debit=escrow, credit=settlement.payer, amount=amount)
    return (
        parts.record(settlement, order, now),
        parts.count(settlement, order, layout),
        entries.transfer(settlement, part_name(order.part), taken, now),
        entries.transfer(settlement, refund_name(order.part), given, now),
        balances.debit_part(settlement, amount),
        balances.credit_part(settlement, amount),
    )
