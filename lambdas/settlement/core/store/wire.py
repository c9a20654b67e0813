"""Converts rows to and from DynamoDB's wire format.

boto3 would try a dozen types per value, and its import takes a seventh of a cold start. So it is used only
for rows changed by hand.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_DIGITS_MAX = 38


def to_wire(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert to the wire format. Raises TypeError for a type that DynamoDB does not know."""
    return {name: {"S": value} if isinstance(value, str) else _typed(value) for name, value in row.items()}


def from_wire(item: Mapping[str, Any]) -> dict[str, Any]:
    """Convert from the wire format. Raises ValueError for a fraction: the table has only integers."""
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
