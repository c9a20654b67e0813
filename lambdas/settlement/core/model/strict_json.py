"""Parses JSON from outside. Refuses a text that two parsers may read differently.

RFC 8259 leaves repeated names and a byte order mark open.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

DEPTH_MAX = 100
"""Maximum nested levels. Every contract has fewer than ten, and every parser supports a hundred."""

_NAME_LENGTH_MAX = 40


class Malformed(ValueError):
    """The text is not strict JSON. The message states the broken rule, and begins with a verb."""


def parse(text: str | bytes, *, parse_float: Callable[[str], Any] = float) -> Any:
    """Parse a text. Raises Malformed. Its message repeats at most a field's name."""
    try:
        content = (text.encode() if isinstance(text, str) else text).decode()
        if content.startswith("\ufeff"):
            raise Malformed("must begin without a byte order mark")
        found = json.loads(
            content, parse_float=parse_float, parse_constant=_refuse, object_pairs_hook=_members
        )
        _check_depth(found)
    except Malformed:
        raise
    except RecursionError:
        raise _too_deep() from None
    except UnicodeError:
        raise Malformed("must be JSON in UTF-8") from None
    except ValueError as error:
        raise Malformed(f"must be JSON: {error}") from None
    return found


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            shown = name[:_NAME_LENGTH_MAX].encode("unicode_escape").decode()
            raise Malformed(f"must have each field once, and has {shown} twice")
        found[name] = value
    return found


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level := [inner for one in level if isinstance(one, dict | list) for inner in _inside(one)]:
        depth += 1
        if depth > DEPTH_MAX:
            raise _too_deep()


def _inside(one: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return one.values() if isinstance(one, dict) else one


def _too_deep() -> Malformed:
    return Malformed(f"must be nested at most {DEPTH_MAX} levels deep")


def _refuse(name: str) -> None:
    raise Malformed(f"must be JSON, which has no {name}")
