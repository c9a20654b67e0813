"""Parsers of single attributes. Each raises MalformedRow."""

import hashlib
import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

from settlement.core.ledger.keys import Row
from settlement.core.model.stored import MalformedRow

LARGEST = 2**63 - 1
"""Maximum integer. SQLite stores larger integers inexactly."""

CHECK_NAME = re.compile(r"[a-z][a-z0-9-]{0,29}", re.ASCII)
"""Name of a check, safe to print."""

_DATE = r"[1-9][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{3}"
_INSTANT = re.compile(rf"(?:{_DATE}T{_TIME}Z)+")
"""Concatenated timestamps, several checked at once."""

_TEXT = frozenset({str})
_TEXT_OR_NONE = frozenset({str, type(None)})


def texts(*names: str) -> Callable[[Row], tuple[str, ...]]:
    get = itemgetter(*names)

    def read(row: Row) -> tuple[str, ...]:
        try:
            values: tuple[str, ...] = get(row)
        except KeyError:
            values = ()
        if _TEXT.issuperset(map(type, values)) and values:
            return values
        return tuple(text(row, name) for name in names)

    return read


def text(row: Row, name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise MalformedRow(f"{name} is {'missing' if value is None else 'no text'}")
    return value


def amount(row: Row, name: str) -> int:
    value = row.get(name)
    if type(value) is not int:
        raise MalformedRow(f"{name} is {'missing' if value is None else 'no whole number'}")
    if not -LARGEST <= value <= LARGEST:
        raise MalformedRow(f"{name} is out of range")
    return value


def count(row: Row, name: str, least: int = 0) -> int:
    value = amount(row, name)
    if value < least:
        raise MalformedRow(f"{name} is less than {least}")
    return value


def optional(row: Row, name: str, kind: type = str) -> Any:
    value = row.get(name)
    if value is not None and type(value) is not kind:
        raise MalformedRow(f"{name} is no {kind.__name__}")
    return value


def optionals(row: Row, names: tuple[str, ...]) -> list[str | None]:
    found = [*map(row.get, names)]
    if _TEXT_OR_NONE.issuperset(map(type, found)):
        return found
    return [optional(row, name) for name in names]


def record(row: Row, name: str, fields: Iterable[str]) -> dict[str, str] | None:
    found: dict[str, str] | None = optional(row, name, dict)
    if found is None:
        return None
    if found.keys() != {*fields} or not _TEXT.issuperset(map(type, found.values())):
        raise MalformedRow(f"{name} is not exactly {', '.join(sorted(fields))}")
    return found


def instants(row: Row, names: tuple[str, ...]) -> None:
    found = [value for value in optionals(row, names) if value is not None]
    if found and not (_INSTANT.fullmatch("".join(found)) and {*map(len, found)} == {_INSTANT_LENGTH}):
        at_fault = next(name for name in names if name in row and not is_instant(row[name]))
        raise MalformedRow(f"{at_fault} is no timestamp")


def instant(row: Row, name: str) -> str:
    value = text(row, name)
    if not is_instant(value):
        raise MalformedRow(f"{name} is no timestamp")
    return value


def is_long_before(earlier: str, later: str) -> bool:
    if earlier >= later:
        return False
    try:
        return datetime.fromisoformat(later) - datetime.fromisoformat(earlier) > _LONG
    except ValueError:  # a date that does not exist
        return True


def is_instant(value: str) -> bool:
    return len(value) == _INSTANT_LENGTH and _INSTANT.fullmatch(value) is not None


def digest(*parts: str) -> str:
    """Fingerprint texts for comparison. The texts may be personal."""
    return hashlib.sha256("\0".join(f"{len(part)}:{part}" for part in parts).encode()).hexdigest()


_LONG = timedelta(days=1)
"""Tolerance: clocks differ by far less, and entries are kept far longer."""

_INSTANT_LENGTH = len("2026-11-22T06:04:57.123Z")
