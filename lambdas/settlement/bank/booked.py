"""The books' deposits and withdrawals, which persons ordered. Payouts book their own lines."""

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import islice

from settlement.accounts.order import AccountOrder, OrderKind
from settlement.bank.matching import Order
from settlement.bank.statement import REFERENCE_MAX, Side
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.stored import MalformedRow, exponent_of
from settlement.core.store import batch
from settlement.core.store.dynamodb import Store

_SIDES = {OrderKind.DEPOSIT: Side.IN, OrderKind.WITHDRAW: Side.OUT}
LISTED_MAX = 2**31


def orders(
    store: Store,
    config: StageConfig,
    unreadable: Callable[[str], None],
    first: str,
    last: str,
) -> Iterator[Order]:
    """Yield the orders of these days that moved money. Each costs an index read and a row read.

    `unreadable` is called for each unreadable row. The index may lag some seconds.
    """
    for month in keys.order_months(first[: keys.MONTH], last[: keys.MONTH]):
        listed = store.listed(keys.orders_partition(month), since=first, up_to=f"{last}~", limit=LISTED_MAX)
        own = (key for key in listed if key["sk"] == keys.order("")["sk"])
        while found := list(islice(own, batch.BATCH_MAX)):
            yield from _moving(store, config, found, unreadable)


def _moving(
    store: Store, config: StageConfig, found: list[Row], unreadable: Callable[[str], None]
) -> Iterator[Order]:
    def put_aside(row: Row, reason: str) -> None:
        unreadable(f"{row['pk']}: {reason.removeprefix(row['pk'] + ': ')}")

    for row in batch.read(store, found, put_aside):
        try:
            if order := _order(row):
                exponent_of(row["pk"], order.currency, config)
                yield order
        except MalformedRow as malformed:
            put_aside(row, str(malformed))


def _order(row: Row) -> Order | None:
    told = AccountOrder.from_row(row)
    side = _SIDES.get(told.order)
    if side is None:
        return None
    currency, amount = told.money
    if amount < 1:
        raise MalformedRow("amount must be at least 1")
    if not isinstance(told.reference, str) or not isinstance(row.get("posted_at"), str):
        raise MalformedRow("reference and posted_at must be texts")
    day = row["posted_at"][: len("2026-11-27")]
    try:
        datetime.fromisoformat(day)
    except ValueError:
        raise MalformedRow("posted_at is no time") from None
    reference = " ".join(told.reference.split())[:REFERENCE_MAX]
    return Order(told.key, told.account, currency, amount, side, reference, day)
