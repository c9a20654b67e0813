"""Rows in DynamoDB's wire format, and back: fast for the types that the ledger writes.

boto3's conversion tries a dozen types for each value, and to import it is a seventh of a cold start. It still
converts the types that the ledger never writes, but that a row changed by hand may have.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_DIGITS_MAX = 38
"""Most digits of a number in DynamoDB. boto3 refuses more."""


def to_wire(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as DynamoDB takes it. Raises TypeError for a type that it does not know."""
    return {name: {"S": value} if isinstance(value, str) else _typed(value) for name, value in row.items()}


def from_wire(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as plain Python. Raises ValueError for a number that is no integer: the table has none."""
    return {name: value["S"] if "S" in value else _plain(value) for name, value in item.items()}


def _typed(value: Any) -> dict[str, Any]:
    kind = type(value)
    if kind is int and len(text := str(value)) <= _DIGITS_MAX:
        return {"N": text}
    if kind is bool:
        return {"BOOL": value}
    if kind is dict:
        return {"M": to_wire(value)}
    if kind is set and value and all(isinstance(member, str) for member in value):
        return {"SS": list(value)}
    if isinstance(value, str):
        return {"S": value}
    from boto3.dynamodb.types import TypeSerializer  # noqa: PLC0415 - see above

    typed: dict[str, Any] = TypeSerializer().serialize(value)
    return typed


def _plain(value: Mapping[str, Any]) -> Any:
    ((kind, content),) = value.items()
    if kind == "BOOL":
        return content
    if kind == "N" and content.isdecimal() and len(content) <= _DIGITS_MAX:
        return int(content)
    if kind == "SS":
        return set(content)
    if kind == "M":
        return from_wire(content)
    from boto3.dynamodb.types import TypeDeserializer  # noqa: PLC0415 - see above

    return _whole(TypeDeserializer().deserialize(value))


def _whole(value: Any) -> Any:
    if not isinstance(value, Decimal):
        return value
    if value != value.to_integral_value():
        raise ValueError(f"a row holds {value}, but every number in the table is an integer")
    return int(value)
