import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from settlement.core.model import money
from settlement.journal.lines import PUTS

ENTRIES = "ENTRIES#"
STORED = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z", re.ASCII)
"""A stored time. PostgreSQL reads less of ISO 8601 than Python does."""

AMOUNT_MAX = 2**63 - 1
"""Maximum of PostgreSQL's bigint. The model's amounts have at most 15 digits."""

TEXT_BYTES_MAX = 600
"""Maximum bytes of a text: two must fit PostgreSQL's index row of 2,704 bytes.

Legitimate texts have at most 100.
"""


@dataclass(frozen=True)
class Entry:
    """An entry of the books, in minor units."""

    key: str
    step: str
    posted_at: str
    debit: str
    credit: str
    amount: int
    currency: str
    request_hash: str


@dataclass(frozen=True)
class Aside:
    line: str
    reason: str


def entries(told: Iterable[Any]) -> Iterator[Entry | Aside]:
    """Yield entries, and lines to put aside. Rows that move no money are left out."""
    for line in told:
        found = _entry(line)
        if found is not None:
            yield found


def told(entry: Entry, currencies: Mapping[str, int]) -> dict[str, str]:
    """An entry with its amount in currency units. Raises ValueError."""
    if entry.currency not in currencies:
        raise ValueError(f"currency: the stage has no {entry.currency}")
    return {**asdict(entry), "amount": money.render(entry.amount, currencies[entry.currency])}


def _entry(told: Any) -> Entry | Aside | None:
    try:
        row = (told.get("new") or told["old"])["row"]
        if not row["pk"].startswith(ENTRIES):
            return None
        if told["event"] not in PUTS:
            return Aside(json.dumps(told), f"{told['event']} of an entry, which never changes")
        return _checked(row)
    except (ValueError, KeyError, TypeError, AttributeError) as wrong:
        reason = str(wrong) if isinstance(wrong, ValueError) else f"{type(wrong).__name__} {wrong}"
        return Aside(json.dumps(told), f"no entry: {reason}"[:500])


def _checked(row: dict[str, Any]) -> Entry:
    step = row["step"]
    key = row["sk"].removeprefix(f"{row['posted_at']}#").removesuffix(f":{step}")
    entry = Entry(
        key=key,
        step=step,
        posted_at=row["posted_at"],
        debit=row["debit"],
        credit=row["credit"],
        amount=row["amount"],
        currency=row["currency"],
        request_hash=row["request_hash"],
    )
    for name, value in vars(entry).items():
        if name != "amount" and not (isinstance(value, str) and value and value.isprintable()):
            raise ValueError(f"{name}: must be printable text")
        if name != "amount" and len(value.encode()) > TEXT_BYTES_MAX:
            raise ValueError(f"{name}: must be at most {TEXT_BYTES_MAX} bytes")
    if type(entry.amount) is not int or not 0 <= entry.amount <= AMOUNT_MAX:
        raise ValueError("amount: must be a whole number, at least 0")
    if entry.debit == entry.credit:
        raise ValueError("debit: must be another account than the credit's")
    if row["sk"] != f"{entry.posted_at}#{key}:{step}":
        raise ValueError("sk: is not that of the entry's time, key and step")
    if not STORED.fullmatch(entry.posted_at):
        raise ValueError("posted_at: must be an instant, such as 2026-11-20T12:00:00.000Z")
    datetime.fromisoformat(entry.posted_at)
    return entry
