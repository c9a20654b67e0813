"""Strict reading of the stack's JSON. An invalid field raises MalformedAnswer, which names it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeVar

from settlement_client.errors import MalformedAnswer

_AMOUNT = re.compile(r"(0|[1-9][0-9]*)(\.[0-9]+)?")
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z")
_Enum = TypeVar("_Enum", bound=StrEnum)


def object_of(given: str | bytes | Mapping[str, Any], what: str) -> Mapping[str, Any]:
    """Return the JSON object in a text, or the given mapping unchanged."""
    try:
        content = json.loads(given) if isinstance(given, str | bytes) else given
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer(f"{what}: is no JSON: {type(error).__name__}") from None
    if not isinstance(content, Mapping):
        raise MalformedAnswer(f"{what}: must be a JSON object")
    return content


@dataclass(frozen=True)
class Fields:
    """The fields of one JSON object. `what` is the object's name in messages."""

    content: Mapping[str, Any]
    what: str

    def has(self, name: str) -> bool:
        return self.content.get(name) is not None

    def is_set(self, name: str) -> bool:
        if name not in self.content:
            raise self._wrong(name, "")
        return self.has(name)

    def text(self, name: str, pattern: re.Pattern[str] | None = None) -> str:
        value = self.content.get(name)
        if not isinstance(value, str):
            raise self._wrong(name, "must be a string")
        if pattern and not pattern.fullmatch(value):
            raise self._wrong(name, f"must match ^{pattern.pattern}$")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.content.get(name)
        if not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            raise self._wrong(name, "must be a list of strings")
        return tuple(value)

    def mapping(self, name: str) -> dict[str, str]:
        value = self.content.get(name)
        if not (isinstance(value, Mapping) and all(isinstance(one, str) for one in value.values())):
            raise self._wrong(name, "must be an object of texts")
        return dict(value)

    def flag(self, name: str) -> bool:
        value = self.content.get(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "must be true or false")
        return value

    def amount(self, name: str) -> Decimal:
        return Decimal(self.text(name, _AMOUNT))

    def instant(self, name: str) -> datetime:
        text = self.text(name, _INSTANT)
        try:
            return datetime.fromisoformat(text)
        except ValueError as error:
            raise self._wrong(name, str(error)) from None

    def one_of(self, name: str, values: type[_Enum]) -> _Enum:
        """Return a member of an enumeration.

        Raises MalformedAnswer for an unknown value: no program may act on it.
        """
        text = self.text(name)
        if text not in [*values]:
            raise self._wrong(name, f"{text[:40]!r} is unknown; it must be one of {', '.join(values)}")
        return values(text)

    def count(self, name: str) -> int:
        value = self.content.get(name)
        if type(value) is not int or value < 0:
            raise self._wrong(name, "must be a whole number, at least 0")
        return value

    def objects(self, name: str) -> list["Fields"]:
        value = self.content.get(name)
        if not (isinstance(value, list) and all(isinstance(one, Mapping) for one in value)):
            raise self._wrong(name, "must be a list of objects")
        return [Fields(one, f"{self.what}.{name}[{number}]") for number, one in enumerate(value)]

    def inner(self, name: str) -> "Fields":
        value = self.content.get(name)
        if not isinstance(value, Mapping):
            raise self._wrong(name, "must be an object")
        return Fields(value, f"{self.what}.{name}")

    def _wrong(self, name: str, words: str) -> MalformedAnswer:
        return MalformedAnswer(f"{self.what}.{name}: {'missing' if name not in self.content else words}")
