"""The rows of bank lines and their orders, from the sealed journal. The journal has no free texts."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from datetime import date, datetime
from typing import Any

from settlement.journal.entries import AMOUNT_MAX, STORED, TEXT_BYTES_MAX, Aside
from settlement.journal.lines import PUTS

_KIND = "BANK_LINE#"
_IDENTITY = re.compile(r"[0-9a-f]{64}", re.ASCII)
_SIDES = ("in", "out")


@dataclass(frozen=True)
class BankLine:
    """A bank's line, in minor units. `booked` and `valued` are days."""

    line: str
    bank_account: str
    currency: str
    amount: int
    side: str
    booked: str
    valued: str
    bank_reference: str
    file: str
    posted_at: str


@dataclass(frozen=True)
class BankMatch:
    line: str
    key: str
    account: str
    currency: str
    amount: int
    side: str
    posted_at: str


def rows(told: Iterable[Any]) -> Iterator[BankLine | BankMatch | Aside]:
    for line in told:
        row = _of_bank(line)
        if row is not None:
            yield _read(line, row)


def _of_bank(told: Any) -> dict[str, Any] | None:
    try:
        row: dict[str, Any] = (told.get("new") or told["old"])["row"]
        return row if row["pk"].startswith(_KIND) else None
    except (KeyError, TypeError, AttributeError):
        return None


def _read(told: Any, row: dict[str, Any]) -> BankLine | BankMatch | Aside:
    if told["event"] not in PUTS:
        return Aside(json.dumps(told), f"{told['event']} of the bank's line, which never changes")
    try:
        return _line(row) if row["sk"] == "LINE" else _match(row)
    except (ValueError, KeyError, TypeError) as wrong:
        reason = str(wrong) if isinstance(wrong, ValueError) else f"{type(wrong).__name__} {wrong}"
        return Aside(json.dumps(told), f"no line of the bank: {reason}"[:500])


def _line(row: dict[str, Any]) -> BankLine:
    found = BankLine(
        line=row["pk"].removeprefix(_KIND),
        **{one.name: row[one.name] for one in fields(BankLine) if one.name != "line"},
    )
    for name in ("booked", "valued"):
        day = getattr(found, name)
        if date.fromisoformat(day).isoformat() != day:
            raise ValueError(f"{name}: must be a day, such as 2026-11-27")
    _check(found)
    return found


def _match(row: dict[str, Any]) -> BankMatch:
    if (row["pk"], row["sk"]) != (f"{_KIND}{row['line']}", "MATCH"):
        raise ValueError("sk: is not that of a line or its match")
    names = ("line", "account", "currency", "amount", "side", "posted_at")
    found = BankMatch(key=row["order"], **{name: row[name] for name in names})
    _check(found)
    return found


def _check(found: BankLine | BankMatch) -> None:
    for name, value in vars(found).items():
        if name == "amount":
            continue
        if not (isinstance(value, str) and value.isprintable() and len(value.encode()) <= TEXT_BYTES_MAX):
            raise ValueError(f"{name}: must be printable text of at most {TEXT_BYTES_MAX} bytes")
    if type(found.amount) is not int or not 1 <= found.amount <= AMOUNT_MAX:
        raise ValueError("amount: must be a whole number, at least 1")
    if found.side not in _SIDES:
        raise ValueError(f"side: must be one of {', '.join(_SIDES)}")
    if not _IDENTITY.fullmatch(found.line):
        raise ValueError("line: must be a SHA-256")
    if not STORED.fullmatch(found.posted_at):
        raise ValueError("posted_at: must be an instant, such as 2026-11-20T12:00:00.000Z")
    datetime.fromisoformat(found.posted_at)
