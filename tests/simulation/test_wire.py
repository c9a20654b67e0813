"""The simulator's fast conversion of rows gives the same wire format as the store's."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from settlement.adapters import dynamodb
from settlement.model.status import Status
from tests.world import wire

TEXTS = st.text(max_size=5) | st.sampled_from(Status)
NUMBERS = (
    st.integers(-(10**39), 10**39) | st.sampled_from([10**37, 10**38 - 1, 10**38]) | st.integers(-20, 20)
)
DECIMALS = st.sampled_from([Decimal(text) for text in ("1.50", "-7", "7.0", "1E+2", "0", "-0")])
OTHERS = st.sampled_from([None, True, False, b"x", 1.5, (), frozenset("ab")]) | DECIMALS
SETS = st.sets(TEXTS, max_size=3) | st.sets(NUMBERS, max_size=3) | st.sets(TEXTS | NUMBERS, max_size=2)
VALUES = st.recursive(
    TEXTS | NUMBERS | OTHERS | SETS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
ROWS = st.dictionaries(st.text(max_size=3), VALUES, max_size=4)


def outcome(convert: Callable[[Any], Any], row: Any) -> Any:
    """Return a conversion's result with its kinds: True is not 1, and a status is no plain text."""
    try:
        return told(convert(row))
    except (TypeError, ValueError, ArithmeticError) as refused:
        return type(refused)


def told(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: told(member) for name, member in value.items()}
    if isinstance(value, set):
        return {"a set of": frozenset(map(told, value))}
    if isinstance(value, list):
        return ["a list of", *map(told, value)]
    return type(value), value


@settings(max_examples=200)
@given(ROWS)
def test_each_row_is_converted_as_by_the_store(row: dict[str, Any]) -> None:
    there = outcome(dynamodb._to_wire, row)

    assert outcome(wire.to_wire, row) == there
    if not isinstance(there, type):
        item = dynamodb._to_wire(row)
        assert outcome(wire.from_wire, item) == outcome(dynamodb.from_wire, item)


def test_a_row_from_the_wire_is_the_callers_own_copy() -> None:
    row: dict[str, Any] = {"steps": {"hold"}, "failure": {"step": "hold", "of": {"key"}}}
    item = wire.to_wire(row)

    row["steps"].add("fee")
    read = wire.from_wire(item)
    read["steps"].add("release")
    read["failure"]["of"].clear()
    del read["failure"]["step"]

    assert wire.from_wire(item) == {"steps": {"hold"}, "failure": {"step": "hold", "of": {"key"}}}
