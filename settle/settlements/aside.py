from collections.abc import Iterable, Sequence
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.stored import MalformedRow, sound

Line = dict[str, Any]

UNREADABLE = "unreadable"
"""The field with the reason why a row is unreadable. Other rows' lines lack it."""


def line(fields: Sequence[str], row: Row, reason: str, /, **known: Any) -> Line:
    name = keys.subject(row)[1]
    return {**dict.fromkeys(fields), "key": name, **known, UNREADABLE: f"{row['pk']}: {_short(reason, row)}"}


def texts(row: Row, *names: str) -> dict[str, str]:
    return {name: value for name in names if isinstance(value := row.get(name), str)}


def is_sound(name: str, value: Any) -> bool:
    try:
        sound({name: value})
    except MalformedRow:
        return False
    return True


def of(lines: Iterable[Line]) -> list[Line]:
    return [one for one in lines if UNREADABLE in one]


def _short(reason: str, row: Row) -> str:
    return reason.removeprefix(f"{row['pk']}: ").removeprefix(f"{keys.subject(row)[0]}: ")
