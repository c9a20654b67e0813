"""Entries out of the lines of the sealed journal: pure."""

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Any

ENTRIES = "ENTRIES#"
_NEW = ("INSERT", "FILL")
AMOUNT_MAX = 2**63 - 1
"""The largest amount of PostgreSQL's bigint; one of ours has 15 digits."""


@dataclass(frozen=True)
class Entry:
    """An entry as the books have it; `amount` in minor units."""

    key: str
    step: str
    posted_at: str
    debit: str
    credit: str
    amount: int
    currency: str
    request_hash: str

    @property
    def values(self) -> tuple[Any, ...]:
        """The values in the order of the table's columns."""
        return astuple(self)


@dataclass(frozen=True)
class Aside:
    """A line that is no entry of the books, and why."""

    line: str
    reason: str


def entries(content: bytes) -> Iterator[Entry | Aside]:
    """Yield what an object of the journal has of the journal's entries, and what is to be put aside.

    Evidence, orders and the rows of settlements and accounts move nothing, and are left out.
    """
    try:
        text = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        yield Aside(json.dumps(content[:100].hex()), f"the object is no gzip: {type(error).__name__}")
        return
    for line in text.splitlines():
        found = _entry(line)
        if found is not None:
            yield found


def _entry(line: bytes) -> Entry | Aside | None:
    try:
        told = json.loads(line)
        row = (told.get("new") or told["old"])["row"]
        if not row["pk"].startswith(ENTRIES):
            return None
        if told["event"] not in _NEW:
            return Aside(json.dumps(told), f"{told['event']} of an entry, which never changes")
        return _checked(row)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as wrong:
        reason = str(wrong) if isinstance(wrong, ValueError) else f"{type(wrong).__name__} {wrong}"
        shown = line[:10_000].decode("utf-8", "backslashreplace").replace("\0", "\\0")
        return Aside(json.dumps(shown), f"no entry: {reason}"[:500])


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
        if name != "amount" and not (isinstance(value, str) and value and "\0" not in value):
            raise ValueError(f"{name}: must be a text")
    if type(entry.amount) is not int or not 0 <= entry.amount <= AMOUNT_MAX:
        raise ValueError("amount: must be a whole number, at least 0")
    if entry.debit == entry.credit:
        raise ValueError("debit: must be another account than the credit's")
    if row["sk"] != f"{entry.posted_at}#{key}:{step}":
        raise ValueError("sk: is not that of the entry's time, key and step")
    if datetime.fromisoformat(entry.posted_at).tzinfo is None:
        raise ValueError("posted_at: must be an instant")
    return entry
