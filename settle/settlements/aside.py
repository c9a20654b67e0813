"""Unreadable rows of a list: one line each, with the name and the reason."""

from collections.abc import Iterable, Sequence
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.stored import MalformedRow, sound

Line = dict[str, Any]

UNREADABLE = "unreadable"
"""The field that only such a line has: the reason."""


def line(fields: Sequence[str], row: Row, reason: str, **known: Any) -> Line:
    """Return the line of an unreadable row: its key, its `known` fields and the reason."""
    name = keys.subject(row)[1]
    return {**dict.fromkeys(fields), "key": name, **known, UNREADABLE: f"{row['pk']}: {_short(reason, row)}"}


def texts(row: Row, *names: str) -> dict[str, str]:
    """Return those of the attributes that are texts, as far as a row has them."""
    return {name: value for name in names if isinstance(value := row.get(name), str)}


def is_sound(name: str, value: Any) -> bool:
    """Return whether an attribute has the type that each row has it in."""
    try:
        sound({name: value})
    except MalformedRow:
        return False
    return True


def of(lines: Iterable[Line]) -> list[Line]:
    """Return the lines of rows that cannot be read."""
    return [one for one in lines if UNREADABLE in one]


def _short(reason: str, row: Row) -> str:
    """Return a reason without the row's name, which stands before it."""
    return reason.removeprefix(f"{row['pk']}: ").removeprefix(f"{keys.subject(row)[0]}: ")
