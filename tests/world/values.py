from collections.abc import Callable
from decimal import Decimal
from typing import Any

Value = dict[str, Any]
SETS = ("SS", "NS")


class Invalid(Exception):
    """A fault that DynamoDB answers with a ValidationException."""


def normal(value: Value) -> Value:
    """Return a normal form, in which equal values compare equal. Raises Invalid for an empty set."""
    ((kind, content),) = value.items()
    if kind == "S":
        return value if type(content) is str else {"S": str(content)}  # an enum's member returns as a text
    if kind == "N":
        return {"N": _numeral(content)}
    if kind in SETS:
        members = {_numeral(member) if kind == "NS" else member for member in content}
        if not members or len(members) != len(content):
            raise Invalid("One or more parameter values were invalid: a set is empty or has duplicates")
        return {kind: sorted(members)}
    if kind == "M":
        return {"M": {name: normal(member) for name, member in content.items()}}
    if kind == "L":
        return {"L": [normal(member) for member in content]}
    return value


def _equal(left: Value | None, right: Value | None) -> bool:
    return left is not None and left == right


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Value | None, Value | None], bool]:
    def test(left: Value | None, right: Value | None) -> bool:
        if left is None or right is None:
            return False
        ((kind, one),) = left.items()
        ((other_kind, other),) = right.items()
        if kind != other_kind:
            return False
        if kind == "N":
            return compare(_amount(one), _amount(other))
        if kind == "S":
            return compare(one.encode(), other.encode())
        return False

    return test


COMPARISONS: dict[str, Callable[[Value | None, Value | None], bool]] = {
    "=": _equal,
    "<": _ordered(lambda left, right: left < right),
    "<=": _ordered(lambda left, right: left <= right),
    ">": _ordered(lambda left, right: left > right),
    ">=": _ordered(lambda left, right: left >= right),
}
"""Comparisons by operator; all are false for values of different kinds."""


def contains(held: Value | None, operand: Value | None) -> bool:
    if held is None or operand is None:
        return False
    ((kind, content),) = held.items()
    ((other, sought),) = operand.items()
    if kind == "L":
        return operand in content
    return (kind, other) in {("S", "S"), ("SS", "S"), ("NS", "N")} and sought in content


def begins_with(held: Value | None, operand: Value | None) -> bool:
    if held is None or operand is None or "S" not in held or "S" not in operand:
        return False
    return bool(held["S"].startswith(operand["S"]))


def present(value: Value | None) -> Value:
    if value is None:
        raise Invalid("The provided expression refers to an attribute that does not exist in the item")
    return value


def added(left: Value, right: Value, sign: int) -> Value:
    if "N" not in left or "N" not in right:
        raise Invalid("An operand in the update expression has an incorrect data type")
    return {"N": _numeral(str(_amount(left["N"]) + sign * _amount(right["N"])))}


def members_of(value: Value, held: Value | None) -> tuple[str, list[str]]:
    """Return a set's type, and the members that the item already holds. Raises Invalid for another type."""
    ((kind, _),) = value.items()
    if kind not in SETS or (held is not None and kind not in held):
        raise Invalid("An operand in the update expression has an incorrect data type")
    return kind, held[kind] if held else []


def _amount(text: str) -> int | Decimal:
    try:
        return int(text)
    except ValueError:
        return Decimal(text)


def _numeral(text: str) -> str:
    number = _amount(text)
    return str(number) if isinstance(number, int) else f"{number.normalize():f}"
