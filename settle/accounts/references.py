from collections.abc import Sequence

from settle.stack import Stack
from settlement.accounts.order import OrderKind
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.store import batch

_OF_ORDERS = (OrderKind.DEPOSIT, OrderKind.WITHDRAW)
_OF_PAYOUTS = "payout-"
_DIGITS = 12


def read(stack: Stack, entries: Sequence[Row]) -> list[str | None]:
    """Return the reference of each entry's payment or payout. A deposit or withdrawal has the bank's line.

    None: the text is missing or the row unreadable. Entries expire; the rows read here never do.
    """
    named = [_named(entry) for entry in entries]
    found = {(row["pk"], row["sk"]): row for row in batch.read(stack.store, [*_once(named)], _left_out)}
    return [_told(found.get((key["pk"], key["sk"]))) for key in named]


def _left_out(row: Row, reason: str) -> None:
    """Do nothing: the entry is shown without a reference."""


def _named(entry: Row) -> Row:
    if entry["step"] in _OF_ORDERS:
        return keys.banked(entry["key"])
    of_payout = entry["step"].startswith(_OF_PAYOUTS)
    return keys.payout(entry["key"]) if of_payout else keys.settlement(entry["key"])


def _once(named: Sequence[Row]) -> Sequence[Row]:
    return [*{(key["pk"], key["sk"]): key for key in named}.values()]


def _told(row: Row | None) -> str | None:
    if row is None:
        return None
    is_line = row["sk"] == keys.banked("")["sk"]
    told = row.get("line") if is_line else row.get("reference")
    if not isinstance(told, str):
        return None
    return f"bank line {told[:_DIGITS]}" if is_line else told
