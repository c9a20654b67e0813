from dataclasses import dataclass

from settlement.core.ledger.keys import Row
from settlement.core.model.stored import MalformedRow, sound


@dataclass(frozen=True)
class Line:
    """A line of a statement. `key` is a settlement's or order's. `change` is in minor units."""

    posted_at: str
    key: str
    step: str
    change: int


def read(entry: Row, currency: str) -> Line:
    """Parse an entry of an account in `currency`. Raises MalformedRow."""
    row = sound(entry)
    posted_at, step, amount, side = row["posted_at"], row["step"], row["amount"], row["side"]
    key = row["sk"].removeprefix(f"{posted_at}#").removesuffix(f":{step}")
    if row["sk"] != f"{posted_at}#{key}:{step}":
        raise MalformedRow("ENTRIES: its sort key is not that of its time and step")
    if row["currency"] != currency:
        raise MalformedRow(f"ENTRIES: currency is {row['currency']!r}, and not the account's")
    if amount < 0 or side not in ("credit", "debit"):
        raise MalformedRow("ENTRIES: amount must be at least 0, and side credit or debit")
    return Line(posted_at, key, step, amount if side == "credit" else -amount)
