import hashlib
import json
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any, TypeVar

from settle.stack import Stack
from settlement.core.ledger.keys import Row

LOOKS_MAX = 5
"""Maximum reads of a row that changes while its other rows are read."""

_Read = TypeVar("_Read")


def steady(stack: Stack, place: Row, read: Callable[[Row | None], _Read]) -> _Read | None:
    """Return the result of `read` between two equal reads of a row. None: the row changes each time.

    Otherwise, a step might show without its entry.
    """
    row = stack.store.read(place)
    for _ in range(LOOKS_MAX):
        found = read(row)
        again = stack.store.read(place)
        if again == row:
            return found
        row = again
    return None


def about(stack: Stack, at: str, rows: Iterable[Row], *, redact: bool) -> dict[str, Any]:
    """Return a report's footer. Its digest covers the unredacted rows."""
    return {
        "at": at,
        "stack": stack.name,
        "table": stack.outputs["TableName"],
        "version": version("settlement-saga"),
        "digest": _digest(rows),
        "redacted": redact,
    }


def folded(rows: Iterable[Row]) -> list[tuple[str, list[str]]]:
    """Return each row's name and JSON lines."""
    return [
        (
            f"{row['pk']} / {row['sk']}",
            json.dumps(row, indent=2, sort_keys=True, default=_shown, ensure_ascii=False).split("\n"),
        )
        for row in rows
    ]


def _digest(rows: Iterable[Row]) -> str:
    texts = sorted(json.dumps(row, sort_keys=True, default=_shown) for row in rows)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _shown(value: Any) -> Any:
    """Render a set, or a value of a row changed by hand, such as bytes."""
    if isinstance(value, set):
        return sorted(one if isinstance(one, str) else repr(one) for one in value)
    return repr(value)
