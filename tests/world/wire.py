"""The store's conversions between rows and the wire, fast for the types of its rows.

boto3 tries a dozen types for each value, one by one. It still gets the types that are unknown here.
"""

from collections.abc import Mapping
from typing import Any

from settlement.adapters import dynamodb
from settlement.ledger.keys import Row
from tests.world import values

_to_wire, _from_wire = dynamodb._to_wire, dynamodb.from_wire
_DIGITS_MAX = 38
"""Most digits of a number in DynamoDB; boto3 refuses more."""


def to_wire(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {"S": value} if type(value) is str else _wire(value) for name, value in row.items()}


def normal(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the wire in the form in which equal values are equal."""
    return {name: values.normal(value) for name, value in to_wire(row).items()}


def from_wire(item: Mapping[str, Any]) -> Row:
    return {name: value["S"] if "S" in value else _plain(value) for name, value in item.items()}


def _wire(value: Any) -> Any:
    kind = type(value)
    if kind is int and len(text := str(value)) <= _DIGITS_MAX:
        return {"N": text}
    if kind is bool:
        return {"BOOL": value}
    if kind is dict:
        return {"M": to_wire(value)}
    if isinstance(value, str):
        return {"S": value}
    if kind is set and value and all(isinstance(member, str) for member in value):
        return {"SS": list(value)}
    return _to_wire({"": value})[""]


def _plain(value: Any) -> Any:
    ((kind, content),) = value.items()
    if kind == "N" and content.isdecimal() and len(content) <= _DIGITS_MAX:
        return int(content)
    if kind == "SS":
        return set(content)
    if kind == "BOOL":
        return content
    if kind == "M":
        return from_wire(content)
    return _from_wire({"": value})[""]
