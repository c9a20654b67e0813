"""DynamoDB's condition and update expressions, as far as this project uses them, compiled once per text.

Values are as on the wire (`{"S": "x"}`), numbers and sets in one form (`normal`), so that `==` is equality.
Whatever is not known here raises: a simulation that skips what it does not understand proves nothing.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

Value = dict[str, Any]
Item = Mapping[str, Value]
Names = Mapping[str, str]
Values = Mapping[str, Value]
Test = Callable[[Item, Names, Values], bool]
Operand = Callable[[Item, Names, Values], Value | None]

_TOKEN = re.compile(r"\s*(?:([#:]?[A-Za-z_]\w*)|(<=|>=|<>|[=<>(),+-]))")
_SECTION = re.compile(r"\b(SET|REMOVE|ADD|DELETE)\b")
_SETS = ("SS", "NS")


class Invalid(Exception):
    """What DynamoDB answers with a ValidationException."""


@dataclass(frozen=True)
class Condition:
    """A condition, and the placeholders that it uses."""

    holds: Test
    uses: frozenset[str]


@dataclass(frozen=True)
class Change:
    """An update: the item as it leaves it, made from the item as it is, and the placeholders that it uses."""

    apply: Callable[[Item, Names, Values], dict[str, Value]]
    uses: frozenset[str]


def normal(value: Value) -> Value:
    """The value in the one form in which equal values are equal. Raises Invalid for an empty set."""
    ((kind, content),) = value.items()
    if kind == "N":
        return {"N": _numeral(content)}
    if kind in _SETS:
        members = {_numeral(member) if kind == "NS" else member for member in content}
        if not members or len(members) != len(content):
            raise Invalid("One or more parameter values were invalid: a set is empty or has duplicates")
        return {kind: sorted(members)}
    if kind == "M":
        return {"M": {name: normal(member) for name, member in content.items()}}
    if kind == "L":
        return {"L": [normal(member) for member in content]}
    return value


@cache
def condition(text: str) -> Condition:
    """The condition that a text stands for."""
    reader = _Reader(text)
    test = reader.either()
    reader.end()
    return Condition(test, frozenset(reader.used))


@cache
def change(text: str) -> Change:
    """The update that a text stands for."""
    parts = _SECTION.split(text)
    if parts[0].strip() or len(set(parts[1::2])) != len(parts[1::2]):
        raise Invalid(f"Invalid UpdateExpression: {text}")
    readers = []
    acts: list[Callable[[Item, dict[str, Value], Names, Values], None]] = []
    for verb, body in zip(parts[1::2], parts[2::2], strict=True):
        reader = _Reader(body)
        readers.append(reader)
        acts.append(_ACTS[verb](reader))
        while reader.takes(","):
            acts.append(_ACTS[verb](reader))
        reader.end()

    def apply(before: Item, names: Names, values: Values) -> dict[str, Value]:
        after = dict(before)
        for act in acts:
            act(before, after, names, values)
        return after

    return Change(apply, frozenset().union(*(reader.used for reader in readers)))


class _Reader:
    """A recursive descent over the tokens of an expression."""

    def __init__(self, text: str) -> None:
        self._text, self.used = text, set[str]()
        self._tokens: list[str] = []
        position = 0
        while position < len(text.rstrip()):
            match = _TOKEN.match(text, position)
            if not match:
                raise Invalid(f"Syntax error: {text[position:]}")
            self._tokens.append(match[1] or match[2])
            position = match.end()
        self._at = 0

    def takes(self, *words: str) -> str:
        """The next token if it is one of these, which is then passed; else nothing."""
        token = self._tokens[self._at] if self._at < len(self._tokens) else ""
        if token and token in words:
            self._at += 1
            return token
        return ""

    def needs(self, *words: str) -> str:
        token = self.takes(*words)
        if not token:
            raise Invalid(f"Syntax error: {self._text!r} lacks one of {words}")
        return token

    def end(self) -> None:
        if self._at != len(self._tokens):
            raise Invalid(f"Syntax error: {self._text!r} at {self._tokens[self._at]}")

    def word(self) -> str:
        """A path or a placeholder."""
        token = self._tokens[self._at] if self._at < len(self._tokens) else ""
        if not re.fullmatch(r"[#:]?\w+", token):
            raise Invalid(f"Syntax error: {self._text!r} at {token!r}")
        self._at += 1
        if token[0] in "#:":
            self.used.add(token)
        return token

    def path(self) -> Callable[[Names], str]:
        token = self.word()
        if token[0] == ":":
            raise Invalid(f"Syntax error: {token} is no path")
        return (lambda names: names[token]) if token[0] == "#" else (lambda names: token)

    def operand(self) -> Operand:
        token = self.word()
        if token[0] == ":":
            return lambda item, names, values: values[token]
        if token[0] == "#":
            return lambda item, names, values: item.get(names[token])
        return lambda item, names, values: item.get(token)

    def either(self) -> Test:
        tests = [self.both()]
        while self.takes("OR"):
            tests.append(self.both())
        if len(tests) == 1:
            return tests[0]
        return lambda item, names, values: any(test(item, names, values) for test in tests)

    def both(self) -> Test:
        tests = [self.term()]
        while self.takes("AND"):
            tests.append(self.term())
        if len(tests) == 1:
            return tests[0]
        return lambda item, names, values: all(test(item, names, values) for test in tests)

    def term(self) -> Test:
        if self.takes("NOT"):
            test = self.term()
            return lambda item, names, values: not test(item, names, values)
        if self.takes("("):
            test = self.either()
            self.needs(")")
            return test
        if name := self.takes("attribute_exists", "attribute_not_exists", "contains", "begins_with"):
            return self.call(name)
        left = self.operand()
        compare = _COMPARISONS[self.needs(*_COMPARISONS)]
        right = self.operand()
        return lambda item, names, values: compare(left(item, names, values), right(item, names, values))

    def call(self, name: str) -> Test:
        self.needs("(")
        path = self.path()
        if name.startswith("attribute"):
            wanted = name == "attribute_exists"
            self.needs(")")
            return lambda item, names, values: (path(names) in item) is wanted
        self.needs(",")
        operand = self.operand()
        self.needs(")")
        test = _contains if name == "contains" else _begins_with
        return lambda item, names, values: test(item.get(path(names)), operand(item, names, values))


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
        raise Invalid(f"Incorrect operand type for operator: {kind}")

    return test


_COMPARISONS: dict[str, Callable[[Value | None, Value | None], bool]] = {
    "=": _equal,
    "<": _ordered(lambda left, right: left < right),
    "<=": _ordered(lambda left, right: left <= right),
    ">": _ordered(lambda left, right: left > right),
    ">=": _ordered(lambda left, right: left >= right),
}


def _contains(held: Value | None, operand: Value | None) -> bool:
    if held is None or operand is None:
        return False
    ((kind, content),) = held.items()
    ((other, sought),) = operand.items()
    if kind == "L":
        return operand in content
    return (kind, other) in {("S", "S"), ("SS", "S"), ("NS", "N")} and sought in content


def _begins_with(held: Value | None, operand: Value | None) -> bool:
    if operand is None or "S" not in operand:
        raise Invalid("Incorrect operand type for function begins_with")
    return held is not None and "S" in held and held["S"].startswith(operand["S"])


def _set(reader: _Reader) -> Callable[[Item, dict[str, Value], Names, Values], None]:
    path = reader.path()
    reader.needs("=")
    left = reader.operand()
    sign = reader.takes("+", "-")
    right = reader.operand() if sign else None

    def act(before: Item, after: dict[str, Value], names: Names, values: Values) -> None:
        value = _present(left(before, names, values))
        if right:
            value = _sum(value, _present(right(before, names, values)), -1 if sign == "-" else 1)
        after[path(names)] = value

    return act


def _remove(reader: _Reader) -> Callable[[Item, dict[str, Value], Names, Values], None]:
    path = reader.path()

    def act(before: Item, after: dict[str, Value], names: Names, values: Values) -> None:
        after.pop(path(names), None)

    return act


def _add(reader: _Reader) -> Callable[[Item, dict[str, Value], Names, Values], None]:
    path, operand = reader.path(), reader.operand()

    def act(before: Item, after: dict[str, Value], names: Names, values: Values) -> None:
        value, held = _present(operand(before, names, values)), before.get(path(names))
        if "N" in value:
            after[path(names)] = _sum(held or {"N": "0"}, value, 1)
        else:
            kind, members = _members(value, held)
            after[path(names)] = {kind: sorted({*members, *value[kind]})}

    return act


def _delete(reader: _Reader) -> Callable[[Item, dict[str, Value], Names, Values], None]:
    path, operand = reader.path(), reader.operand()

    def act(before: Item, after: dict[str, Value], names: Names, values: Values) -> None:
        value = _present(operand(before, names, values))
        kind, members = _members(value, before.get(path(names)))
        after.pop(path(names), None)
        if left := sorted({*members} - {*value[kind]}):  # DynamoDB drops an empty set
            after[path(names)] = {kind: left}

    return act


_ACTS = {"SET": _set, "REMOVE": _remove, "ADD": _add, "DELETE": _delete}


def _present(value: Value | None) -> Value:
    if value is None:
        raise Invalid("The provided expression refers to an attribute that does not exist in the item")
    return value


def _sum(left: Value, right: Value, sign: int) -> Value:
    if "N" not in left or "N" not in right:
        raise Invalid("An operand in the update expression has an incorrect data type")
    return {"N": _numeral(str(_amount(left["N"]) + sign * _amount(right["N"])))}


def _members(value: Value, held: Value | None) -> tuple[str, list[str]]:
    ((kind, _),) = value.items()
    if kind not in _SETS or (held is not None and kind not in held):
        raise Invalid("An operand in the update expression has an incorrect data type")
    return kind, held[kind] if held else []


def _amount(text: str) -> int | Decimal:
    return int(text) if text.lstrip("-").isdecimal() else Decimal(text)


def _numeral(text: str) -> str:
    number = _amount(text)
    return str(number) if isinstance(number, int) else f"{number.normalize():f}"
