"""The DynamoDB expressions used here, compiled once per text.

Values are in normal form (`values.normal`), so `==` is equality. Unknown constructs raise: a simulation that
skips one proves nothing.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tests.world.values import (
    COMPARISONS,
    SETS,
    Invalid,
    Value,
    added,
    begins_with,
    contains,
    members_of,
    present,
)

Item = Mapping[str, Value]
Names = Mapping[str, str]
Values = Mapping[str, Value]
Test = Callable[[Item, Names, Values], bool]
Operand = tuple[str, Callable[[Item, Names, Values], Value | None]]
"""An operand's text in an expression, and the function that reads its value."""

_TOKEN = re.compile(r"\s*(?:([#:]?[A-Za-z_]\w*)|(<=|>=|<>|[=<>(),+-]))")
_SECTION = re.compile(r"\b(SET|REMOVE|ADD|DELETE)\b")
_TEXTS_MAX = 4_096
"""Maximum of cached texts: the project has fewer, a test with random texts has more."""

RESERVED = {"failure", "owner", "state", "status"}
"""DynamoDB's reserved words that the project uses."""


@dataclass(frozen=True)
class Text:
    """An expression's properties that hold for any item.

    `uses`: its placeholders. `demands`: the types that a placeholder's value may have. `distinct`: pairs of
    operands that must differ. `writes`: the changed attributes.
    """

    uses: frozenset[str]
    demands: tuple[tuple[str, frozenset[str]], ...]
    distinct: tuple[tuple[str, str], ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class Condition:
    holds: Test
    text: Text


@dataclass(frozen=True)
class Change:
    apply: Callable[[Item, Names, Values], dict[str, Value]]
    text: Text


@lru_cache(_TEXTS_MAX)
def condition(text: str) -> Condition:
    said = _Said()
    reader = _Reader(text, said)
    test = reader.either()
    reader.end()
    return Condition(test, said.text())


@lru_cache(_TEXTS_MAX)
def change(text: str) -> Change:
    parts = _SECTION.split(text)
    if parts[0].strip() or len(set(parts[1::2])) != len(parts[1::2]):
        raise Invalid(f"Invalid UpdateExpression: {text}")
    said = _Said()
    acts: list[Act] = []
    for verb, body in zip(parts[1::2], parts[2::2], strict=True):
        reader = _Reader(body, said)
        acts.append(_ACTS[verb](reader))
        while reader.takes(","):
            acts.append(_ACTS[verb](reader))
        reader.end()

    def apply(before: Item, names: Names, values: Values) -> dict[str, Value]:
        after = dict(before)
        for act in acts:
            act(before, after, names, values)
        return after

    return Change(apply, said.text())


def check(
    names: Names, values: Values, *, asks: str | None = None, changes: str | None = None
) -> frozenset[str]:
    """Check expressions without an item. Return the attributes that they change. Raises Invalid."""
    kinds = tuple([(name, kind) for name, (kind,) in values.items()])
    return _check(tuple(names.items()), kinds, asks, changes)


@lru_cache(_TEXTS_MAX)
def _check(
    names: tuple[tuple[str, str], ...],
    kinds: tuple[tuple[str, str], ...],
    asks: str | None,
    changes: str | None,
) -> frozenset[str]:
    name_of, kind_of = dict(names), dict(kinds)
    texts = [condition(asks).text] if asks is not None else []
    texts += [change(changes).text] if changes is not None else []
    used = frozenset[str]().union(*(text.uses for text in texts))
    if used != name_of.keys() | kind_of.keys():
        raise Invalid(f"The expressions use {sorted(used)}, and are given {sorted(name_of | kind_of)}")
    written: list[str] = []
    for text in texts:
        for word, admitted in text.demands:
            if kind_of.get(word, word) not in {word, *admitted}:
                raise Invalid(f"Incorrect operand type for operator or function: {kind_of[word]}")
        for left, right in text.distinct:
            if name_of.get(left, left) == name_of.get(right, right):
                raise Invalid(f"The first operand must be distinct from the remaining operands: {left}")
        written += [name_of.get(path, path) for path in text.writes]
    if len(set(written)) != len(written):
        raise Invalid("Two document paths overlap with each other; must remove or rewrite one of these")
    return frozenset(written)


class _Said:
    def __init__(self) -> None:
        self.used = set[str]()
        self.demands: list[tuple[str, frozenset[str]]] = []
        self.distinct: list[tuple[str, str]] = []
        self.writes: list[str] = []

    def text(self) -> Text:
        return Text(frozenset(self.used), tuple(self.demands), tuple(self.distinct), tuple(self.writes))


class _Reader:
    def __init__(self, text: str, said: _Said) -> None:
        self._text, self.said = text, said
        self._group = (-1, -1)
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
        """Consume and return the next token if in `words`; else return an empty text."""
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
        token = self._tokens[self._at] if self._at < len(self._tokens) else ""
        if not re.fullmatch(r"[#:]?\w+", token):
            raise Invalid(f"Syntax error: {self._text!r} at {token!r}")
        self._at += 1
        if token[0] in "#:":
            self.said.used.add(token)
        if token in RESERVED:
            raise Invalid(f"Attribute name is a reserved keyword: {token}")
        return token

    def path(self) -> Operand:
        word, read = self.operand()
        if word[0] == ":":
            raise Invalid(f"Syntax error: {word} is no path")
        return word, read

    def written(self) -> Callable[[Names], str]:
        word, _ = self.path()
        self.said.writes.append(word)
        return (lambda names: names[word]) if word[0] == "#" else (lambda names: word)

    def operand(self) -> Operand:
        word = self.word()
        if word[0] == ":":
            return word, lambda item, names, values: values[word]
        if word[0] == "#":
            return word, lambda item, names, values: item.get(names[word])
        return word, lambda item, names, values: item.get(word)

    def demand(self, word: str, *admitted: str) -> None:
        """Restrict the types that a placeholder's value may have."""
        if word[0] == ":":
            self.said.demands.append((word, frozenset(admitted)))

    def value(self, *admitted: str) -> Operand:
        word, read = self.operand()
        self.demand(word, *admitted)
        if word[0] != ":":
            raise Invalid(f"Syntax error: {word} is no placeholder of a value")
        return word, read

    def either(self) -> Test:
        tests = [self.both()]
        while self.takes("OR"):
            tests.append(self.both())
        if len(tests) == 1:
            return tests[0]

        def any_holds(item: Item, names: Names, values: Values) -> bool:
            for test in tests:  # noqa: SIM110 (a generator takes twice as long)
                if test(item, names, values):
                    return True
            return False

        return any_holds

    def both(self) -> Test:
        tests = [self.term()]
        while self.takes("AND"):
            tests.append(self.term())
        if len(tests) == 1:
            return tests[0]

        def all_hold(item: Item, names: Names, values: Values) -> bool:
            for test in tests:  # noqa: SIM110
                if not test(item, names, values):
                    return False
            return True

        return all_hold

    def term(self) -> Test:
        if self.takes("NOT"):
            test = self.term()
            return lambda item, names, values: not test(item, names, values)
        if self.takes("("):
            return self.group()
        if name := self.takes("attribute_exists", "attribute_not_exists", "contains", "begins_with"):
            return self.call(name)
        left_word, left = self.operand()
        sign = self.needs(*COMPARISONS)
        right_word, right = self.operand()
        if sign != "=":
            self.demand(left_word, "N", "S", "B")
            self.demand(right_word, "N", "S", "B")
        self.said.distinct.append((left_word, right_word))
        compare = COMPARISONS[sign]
        return lambda item, names, values: compare(left(item, names, values), right(item, names, values))

    def group(self) -> Test:
        opened = self._at
        test = self.either()
        if self._group == (opened, self._at):
            raise Invalid("The expression has redundant parentheses")
        self.needs(")")
        self._group = (opened - 1, self._at)
        return test

    def call(self, name: str) -> Test:
        self.needs("(")
        word, held = self.path()
        if name.startswith("attribute"):
            wanted = name == "attribute_exists"
            self.needs(")")
            return lambda item, names, values: (held(item, names, values) is not None) is wanted
        self.needs(",")
        other_word, operand = self.operand()
        if name == "begins_with":
            self.demand(other_word, "S", "B")
        self.needs(")")
        self.said.distinct.append((word, other_word))
        test = contains if name == "contains" else begins_with
        return lambda item, names, values: test(held(item, names, values), operand(item, names, values))


Act = Callable[[Item, dict[str, Value], Names, Values], None]
"""A change of an item, computed from the item before all changes."""


def _set(reader: _Reader) -> Act:
    path = reader.written()
    reader.needs("=")
    word, left = reader.operand()
    sign = reader.takes("+", "-")
    right = None
    if sign:
        other_word, right = reader.operand()
        reader.demand(word, "N")
        reader.demand(other_word, "N")

    def act(before: Item, after: dict[str, Value], names: Names, values: Values) -> None:
        value = present(left(before, names, values))
        if right:
            value = added(value, present(right(before, names, values)), -1 if sign == "-" else 1)
        after[path(names)] = value

    return act


def _remove(reader: _Reader) -> Act:
    path = reader.written()

    def act(before: Item, after: dict[str, Value], names: Names, values: Values) -> None:
        after.pop(path(names), None)

    return act


def _add(reader: _Reader) -> Act:
    path, (_, operand) = reader.written(), reader.value("N", *SETS)

    def act(before: Item, after: dict[str, Value], names: Names, values: Values) -> None:
        value, held = present(operand(before, names, values)), before.get(path(names))
        if "N" in value:
            after[path(names)] = added(held or {"N": "0"}, value, 1)
        else:
            kind, members = members_of(value, held)
            after[path(names)] = {kind: sorted({*members, *value[kind]})}

    return act


def _delete(reader: _Reader) -> Act:
    path, (_, operand) = reader.written(), reader.value(*SETS)

    def act(before: Item, after: dict[str, Value], names: Names, values: Values) -> None:
        value = present(operand(before, names, values))
        kind, members = members_of(value, before.get(path(names)))
        after.pop(path(names), None)
        if left := sorted({*members} - {*value[kind]}):  # DynamoDB drops an empty set
            after[path(names)] = {kind: left}

    return act


_ACTS = {"SET": _set, "REMOVE": _remove, "ADD": _add, "DELETE": _delete}
