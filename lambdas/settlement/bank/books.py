"""The books' side: people's deposits and withdrawals, which are all that moves `external:<CUR>`."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from settlement.accounts.order import AccountOrder, OrderKind
from settlement.bank.matching import Order
from settlement.bank.statement import REFERENCE_MAX, Side
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.stored import MalformedRow
from settlement.core.store.dynamodb import Store
from settlement.proof import batch

FIRST_MONTH = "2026-01"
"""No stage is older."""

_SIDES = {OrderKind.DEPOSIT: Side.IN, OrderKind.WITHDRAW: Side.OUT}
_LISTED_MAX = 2**31


def orders(
    store: Store, now: datetime, unreadable: Callable[[str], None], since: str = FIRST_MONTH
) -> Iterator[Order]:
    """Yield the orders since a month that moved money, at one index read and one row read for each.

    Names each row that cannot be read to `unreadable`. The index may lag some seconds.
    """
    for month in _months(since, now.astimezone(UTC).strftime("%Y-%m")):
        listed = store.listed(keys.orders_partition(month), up_to=keys.END_OF_TIME, limit=_LISTED_MAX)
        own = (key for key in listed if key["sk"] == keys.order("")["sk"])
        while found := list(islice(own, batch.BATCH_MAX)):
            yield from _moving(store, found, unreadable)


def _moving(store: Store, found: list[Row], unreadable: Callable[[str], None]) -> Iterator[Order]:
    def put_aside(row: Row, reason: str) -> None:
        unreadable(f"{row['pk']}: {reason.removeprefix(row['pk'] + ': ')}")

    for row in batch.read(store, found, put_aside):
        try:
            if order := _order(row):
                yield order
        except MalformedRow as malformed:
            put_aside(row, str(malformed))


def _order(row: Row) -> Order | None:
    told = AccountOrder.from_row(row)
    side = _SIDES.get(told.order)
    if side is None:
        return None
    currency, amount = told.money
    if not isinstance(told.reference, str) or not isinstance(row.get("posted_at"), str):
        raise MalformedRow("reference and posted_at must be texts")
    day = row["posted_at"][: len("2026-11-27")]
    try:
        datetime.fromisoformat(day)
    except ValueError:
        raise MalformedRow("posted_at is no time") from None
    reference = " ".join(told.reference.split())[:REFERENCE_MAX]
    return Order(told.key, told.account, currency, amount, side, reference, day)


def _months(month: str, last: str) -> Iterator[str]:
    year, number = map(int, month.split("-"))
    while f"{year:04}-{number:02}" <= last:
        yield f"{year:04}-{number:02}"
        year, number = (year, number + 1) if number < 12 else (year + 1, 1)
