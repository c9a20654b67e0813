"""Tests that the store converts any row exactly like boto3."""

import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from hypothesis import given, settings
from hypothesis import strategies as st

from settlement.core.model.status import Status
from settlement.core.store import wire

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
READ = (
    *({"N": text} for text in ("0", "-0", "7", "-7", "007", "7.0", "1E+2", "1e2", "9" * 38, "-" + "9" * 38)),
    *({"N": text} for text in ("1.5", "0.1", "9" * 39, "ten", "NaN", "\u0663")),
    *({"L": members} for members in ([], [{"N": "1"}], [{"M": {"a": {"N": "1.5"}}}])),
    *({"NS": members} for members in (["1"], ["1.5", "2"])),
    *({"NULL": True}, {"B": b"x"}, {"BS": [b"x"]}, {"SS": ["a", "b"]}, {"BOOL": False}, {"S": ""}),
    {"M": {"a": {"N": "1.5"}}},
    {"M": {"a": {"M": {"b": {"SS": ["c"]}}}}},
)
"""Values that DynamoDB may return, even from a row changed by hand."""


def outcome(convert: Callable[[Any], Any], row: Any) -> Any:
    """Return a conversion's result with types: True is not 1, and a status is not plain text."""
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


def boto3_typed(row: Any) -> Any:
    return {name: TypeSerializer().serialize(value) for name, value in row.items()}


def boto3_plain(item: Any) -> Any:
    return {name: _plain(TypeDeserializer().deserialize(value)) for name, value in item.items()}


def _plain(value: Any) -> Any:
    """Convert numbers to integers, also in maps; boto3 returns decimals."""
    if isinstance(value, Decimal):
        if value != value.to_integral_value():
            raise ValueError(value)
        return int(value)
    return {name: _plain(member) for name, member in value.items()} if isinstance(value, dict) else value


@settings(max_examples=200)
@given(ROWS)
def test_a_row_is_written_and_read_as_by_boto3(row: dict[str, Any]) -> None:
    item = outcome(boto3_typed, row)

    assert outcome(wire.to_wire, row) == item
    if not isinstance(item, type):
        assert outcome(wire.from_wire, wire.to_wire(row)) == outcome(boto3_plain, boto3_typed(row))


@pytest.mark.parametrize("value", READ, ids=str)
def test_a_value_is_read_as_by_boto3(value: dict[str, Any]) -> None:
    assert outcome(wire.from_wire, {"a": value}) == outcome(boto3_plain, {"a": value})


def test_a_non_integer_number_is_refused_with_its_value() -> None:
    with pytest.raises(ValueError, match=r"^a row holds 1\.5, but every number in the table is an integer$"):
        wire.from_wire({"failure": {"M": {"amount": {"N": "1.5"}}}})


def test_converting_the_ledgers_types_does_not_import_boto3() -> None:
    """Runs in a new process: importing boto3 takes a seventh of a cold start."""
    code = (
        "import sys; from settlement.core.store import wire\n"
        "row = {'a': 'b', 'n': 1, 'yes': True, 'm': {'k': 's'}, 'keys': {'k'}}\n"
        "assert wire.from_wire(wire.to_wire(row)) == row\n"
        "assert 'boto3' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_converted_row_shares_nothing_with_its_source() -> None:
    row: dict[str, Any] = {"steps": {"hold"}, "failure": {"step": "hold", "of": {"key"}}}
    item = wire.to_wire(row)

    row["steps"].add("fee")
    read = wire.from_wire(item)
    read["steps"].add("release")
    read["failure"]["of"].clear()
    del read["failure"]["step"]

    assert wire.from_wire(item) == {"steps": {"hold"}, "failure": {"step": "hold", "of": {"key"}}}
