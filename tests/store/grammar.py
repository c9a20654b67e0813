"""Random items and expressions, of the grammar that `tests/support/expressions.py` knows, and a little wrong.

Few keys, attributes and values, so that they meet: most operands fit the attribute, and some do not.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Value = dict[str, Any]

KEYS = [{"pk": {"S": pk}, "sk": {"S": sk}} for pk in ("A", "Ä") for sk in ("1", "2")]
PARTITIONS = ("P", "Q")
LISTED = ("", "1", "10", "2", "Z", "a", "ä", "\ue000", "\U0001f600")  # UTF-8's order is not UTF-16's
_TEXTS = (*LISTED, "ab", "b", "10", "P")
_NUMBERS = ("0", "1", "-1", "2", "3", "10", "-10", "1000000000000000", "-999999999999999", "999999999999999")
_POOLS = {"P": PARTITIONS, "N": _NUMBERS, "S": (*_TEXTS, *LISTED[-2:] * 2)}
"""The values to choose from, for each plain kind; P is a text that may be an index partition."""

_PLAIN = {"n": "N", "m": "N", "t": "S", "u": "S", "ss": "SS", "tt": "SS", "ns": "NS", "doc": "M", "many": "L"}
_KIND_OF = {**_PLAIN, "flag": "BOOL", "gone": "NULL", "gsi1pk": "P", "gsi1sk": "S", "status": "S"}
_COMPARISONS = ("=", "<", "<=", ">", ">=")


class Grammar:
    """The random parts that a seed makes."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def rarely(self, share: float) -> bool:
        return self.random.random() < share

    def value(self, kind: str = "") -> Value:
        """Return a value of this kind, or of any."""
        pick = self.random.choice
        kind = kind or pick(("N", "S", "SS", "NS", "M", "L", "BOOL", "NULL"))
        if kind in _POOLS:
            return {"S" if kind == "P" else kind: pick(_POOLS[kind])}
        if kind in ("SS", "NS"):
            return {kind: self._members(_NUMBERS if kind == "NS" else _TEXTS)}
        if kind == "M":
            return {"M": {pick(("x", "y")): self.value(pick(("N", "S"))) for _ in range(pick((0, 1, 2)))}}
        if kind == "L":
            return {"L": [self.value(pick(("N", "S", "SS"))) for _ in range(pick((0, 1, 2)))]}
        return {"BOOL": pick((True, False))} if kind == "BOOL" else {"NULL": True}

    def item(self) -> dict[str, Value]:
        """Return a row: most of its attributes are of their own kind."""
        item = dict(self.random.choice(KEYS))
        for name, kind in _KIND_OF.items():
            if self.rarely(0.4):
                item[name] = self.value("" if self.rarely(0.03) else kind)
        return item

    def put(self) -> dict[str, Any]:
        return {"Item": self.item(), **self._judged(Expressions(self), update=False)}

    def update(self) -> dict[str, Any]:
        return {"Key": self.random.choice(KEYS), **self._judged(Expressions(self), update=True)}

    def _judged(self, made: "Expressions", *, update: bool) -> dict[str, Any]:
        parameters: dict[str, Any] = {}
        if update:
            parameters["UpdateExpression"] = made.change()
        if self.rarely(0.5):
            parameters["ConditionExpression"] = made.condition(self.random.choice((0, 0, 1, 1, 2)))
        if self.rarely(0.02):
            made.values[":unused"] = {"N": "1"}
        if self.rarely(0.02):
            made.names["#unused"] = "n"
        for placeholders in (made.names, made.values):
            if placeholders and self.rarely(0.015):
                del placeholders[self.random.choice(sorted(placeholders))]
        if made.names:
            parameters["ExpressionAttributeNames"] = made.names
        if made.values:
            parameters["ExpressionAttributeValues"] = made.values
        if self.rarely(0.7):
            parameters["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        return parameters

    def _members(self, pool: Sequence[str]) -> list[str]:
        members = self.random.sample(pool, self.random.choice((1, 1, 2, 3)))
        if self.rarely(0.02):
            return []
        return members + members[:1] if self.rarely(0.01) else members


class Expressions:
    """The expressions of one write, and their placeholders."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar, self._random = grammar, grammar.random
        self.names: dict[str, str] = {}
        self.values: dict[str, Value] = {}
        self._written = set[str]()

    def condition(self, depth: int) -> str:
        if depth:
            forms: tuple[Callable[[], str], ...] = (
                lambda: f"{self.condition(depth - 1)} AND {self.condition(depth - 1)}",
                lambda: f"{self.condition(depth - 1)} OR {self.condition(depth - 1)}",
                lambda: f"({self.condition(depth - 1)}) AND {self.condition(depth - 1)}",
                lambda: f"({self.condition(depth - 1)} OR {self.condition(depth - 1)})",
                lambda: f"NOT {self.condition(depth - 1)}",
                lambda: f"NOT ({self.condition(depth - 1)})",
                lambda: f"(({self.condition(depth - 1)}))",  # which is refused
            )
            return self._random.choice(forms)()
        name = self._attribute()
        kind = _KIND_OF.get(name, "S")
        form = self._random.choice(
            ("exists", "absent", "contains", "begins", "compare", "compare", "compare")
        )
        if form in ("exists", "absent"):
            return f"attribute_{'not_' * (form == 'absent')}exists({self._path(name)})"
        if form == "contains":
            name = self._attribute("ss", "tt", "ns", "t", "many")
            member = {"SS": "S", "NS": "N", "S": "S", "L": "N"}.get(_KIND_OF.get(name, "S"), "S")
            return f"contains({self._path(name)}, {self._operand(member)})"
        if form == "begins":
            return f"begins_with({self._path(self._attribute('t', 'u', 'gsi1pk'))}, {self._operand('S')})"
        sides = [self._path(name), self._operand(kind)]
        if self._grammar.rarely(0.2):
            sides.reverse()
        return f" {self._random.choice(_COMPARISONS)} ".join(sides)

    def change(self) -> str:
        verbs = self._random.sample(
            ("SET", "REMOVE", "ADD", "DELETE"), self._random.choice((1, 1, 1, 2, 2, 3, 4))
        )
        acts = {"SET": self._set, "REMOVE": self._remove, "ADD": self._add, "DELETE": self._delete}
        return " ".join(
            f"{verb} {', '.join(acts[verb]() for _ in range(self._random.choice((1, 1, 2))))}"
            for verb in verbs
        )

    def _set(self) -> str:
        if self._grammar.rarely(0.4):
            name = self._target("n", "m")
            source = self._path(name) if self._grammar.rarely(0.6) else self._operand("N")
            return f"{self._path(name)} = {source} {self._random.choice('+-')} {self._operand('N')}"
        changed = sorted(self._written)
        name = self._target()
        if changed and self._grammar.rarely(0.3):  # what it was before the update
            return f"{self._path(name)} = {self._path(self._random.choice(changed))}"
        return f"{self._path(name)} = {self._operand(_KIND_OF.get(name, 'S'))}"

    def _remove(self) -> str:
        return self._path(self._target())

    def _add(self) -> str:
        name = self._target("n", "m", "ss", "tt", "ns")
        return f"{self._path(name)} {self._value(_KIND_OF.get(name, 'N'))}"

    def _delete(self) -> str:
        name = self._target("ss", "tt", "ns")
        return f"{self._path(name)} {self._value(_KIND_OF.get(name, 'SS'))}"

    def _target(self, *likely: str) -> str:
        """Return an attribute to change: seldom one that the update changes already, which is refused."""
        names = [self._attribute(*likely) for _ in range(4)]
        name = next((name for name in names if name not in self._written), names[0])
        self._written.add(name)
        return name

    def _attribute(self, *likely: str) -> str:
        if self._grammar.rarely(0.01):
            return self._random.choice(("pk", "sk"))
        return self._random.choice(likely if likely and self._grammar.rarely(0.9) else list(_KIND_OF))

    def _path(self, name: str) -> str:
        if name == "status" or self._grammar.rarely(0.2):
            self.names[f"#{name}"] = name
            return f"#{name}"
        return name

    def _operand(self, kind: str) -> str:
        """Return a value of this kind, or an attribute."""
        if self._grammar.rarely(0.15):
            return self._path(self._attribute(*(name for name, own in _KIND_OF.items() if own == kind)))
        return self._value(kind)

    def _value(self, kind: str) -> str:
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = self._grammar.value("" if self._grammar.rarely(0.03) else kind)
        return placeholder
