"""Malformed copies of rows for the tests of readers: attributes missing or invalid."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row

PLACE = ("pk", "sk", "gsi1pk", "gsi1sk")
"""Key and index attributes; without them no reader would find the row."""

OPTIONAL = frozenset(
    {
        *("layout", "expires_at", "resolutions", "limbo_cases", "sequence", "in_flight_since", "recover_at"),
        *(
            "deadline_seconds",
            "reference",
            "metadata",
            "verdict",
            "review",
            "signature",
            "signed_by",
            "last_order",
        ),
        *("opened_at", "frozen_at", "failure", "reversed_for", "resolution"),
    }
)
"""Attributes that a good row may lack, or of which lists check only the type."""


def spoils(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield invalid values for an attribute of this value's type, each with a name."""
    yield "a fraction", Decimal("1.5")
    if isinstance(value, str):
        yield "a number", 7
        yield "a map", {"S": "x"}
        yield "a list", ["x"]
    elif isinstance(value, dict):
        yield "a text", "x"
        yield "a member that is a fraction", {**value, "x": Decimal("1.5")}
    else:
        yield "a text", "seven"
        yield "a flag", True
        yield "a set", {"x"}


def spoilt(row: Row, *, exhaustive: bool) -> Iterator[tuple[str, Row]]:
    """Yield copies of a row with one attribute missing or invalid; if `exhaustive`, each invalid value."""
    for place, name in enumerate(sorted(row.keys() - {*PLACE})):
        if name not in OPTIONAL:
            yield f"without {name}", {one: row[one] for one in row if one != name}
        values = list(spoils(row[name]))
        for what, value in values if exhaustive else [values[place % len(values)]]:
            yield f"{name} is {what}", row | {name: value}
    if "currency" in row:
        yield "of an unknown currency", row | {"currency": "XXX"}


def under(row: Row, number: int) -> Row:
    """Return a settlement's row under a new key."""
    return row | keys.settlement(f"order-spoilt-{number:04}")
