"""Attributes of a row, checked one by one: present, and of the type and form that they must have."""

import hashlib
import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

from settlement.core.ledger.keys import Row
from settlement.core.model.stored import MalformedRow

LARGEST = 2**63 - 1
"""The largest amount that SQLite keeps exactly; the model accepts no more than 15 digits."""

_DATE = r"[1-9][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{3}"
_INSTANT = re.compile(rf"(?:{_DATE}T{_TIME}Z)+")
"""Timestamps, one behind the other: several are checked at once."""

_TEXT = frozenset({str})
_TEXT_OR_NONE = frozenset({str, type(None)})


def texts(*names: str) -> Callable[[Row], tuple[str, ...]]:
    """Return a reader of attributes that are all there, and texts; else it names the one at fault."""
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
    """Return a text. Raises MalformedRow."""
    value = row.get(name)
    if not isinstance(value, str):
        raise MalformedRow(f"{name} is {'missing' if value is None else 'no text'}")
    return value


def amount(row: Row, name: str) -> int:
    """Return a whole number, as amounts in minor units are. Raises MalformedRow."""
    value = row.get(name)
    if type(value) is not int:
        raise MalformedRow(f"{name} is {'missing' if value is None else 'no whole number'}")
    if not -LARGEST <= value <= LARGEST:
        raise MalformedRow(f"{name} is out of range")
    return value


def count(row: Row, name: str, least: int = 0) -> int:
    """Return a whole number of at least `least`. Raises MalformedRow."""
    value = amount(row, name)
    if value < least:
        raise MalformedRow(f"{name} is less than {least}")
    return value


def optional(row: Row, name: str, kind: type = str) -> Any:
    """Return an attribute that may be absent. Raises MalformedRow for another type."""
    value = row.get(name)
    if value is not None and type(value) is not kind:
        raise MalformedRow(f"{name} is no {kind.__name__}")
    return value


def optionals(row: Row, names: tuple[str, ...]) -> list[str | None]:
    """Return texts that may be absent, all at once. Raises MalformedRow."""
    found = [*map(row.get, names)]
    if _TEXT_OR_NONE.issuperset(map(type, found)):
        return found
    return [optional(row, name) for name in names]


def record(row: Row, name: str, fields: Iterable[str]) -> dict[str, str] | None:
    """Return a map of exactly these texts, which may be absent. Raises MalformedRow."""
    found: dict[str, str] | None = optional(row, name, dict)
    if found is None:
        return None
    if found.keys() != {*fields} or not _TEXT.issuperset(map(type, found.values())):
        raise MalformedRow(f"{name} is not exactly {', '.join(sorted(fields))}")
    return found


def instants(row: Row, names: tuple[str, ...]) -> None:
    """Check timestamps, which may be absent. Raises MalformedRow."""
    found = [value for value in optionals(row, names) if value is not None]
    if found and not (_INSTANT.fullmatch("".join(found)) and {*map(len, found)} == {_INSTANT_LENGTH}):
        at_fault = next(name for name in names if name in row and not is_instant(row[name]))
        raise MalformedRow(f"{at_fault} is no timestamp")


def instant(row: Row, name: str) -> str:
    """Return a timestamp. Raises MalformedRow."""
    value = text(row, name)
    if not is_instant(value):
        raise MalformedRow(f"{name} is no timestamp")
    return value


def is_long_before(earlier: str, later: str) -> bool:
    """Return whether an instant is before another one by more than a day."""
    if earlier >= later:
        return False
    try:
        return datetime.fromisoformat(later) - datetime.fromisoformat(earlier) > _LONG
    except ValueError:  # a day that no month has
        return True


def is_instant(value: str) -> bool:
    """Return whether a text is a timestamp of the fixed width."""
    return len(value) == _INSTANT_LENGTH and _INSTANT.fullmatch(value) is not None


def digest(*parts: str) -> str:
    """Return a fingerprint of texts that are compared, and neither kept nor told: they may be personal."""
    return hashlib.sha256("\0".join(f"{len(part)}:{part}" for part in parts).encode()).hexdigest()


_LONG = timedelta(days=1)
"""Far more than the clocks of two functions differ, and nothing beside the time for which entries stay."""

_INSTANT_LENGTH = len("2026-11-22T06:04:57.123Z")
