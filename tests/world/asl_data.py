"""Evaluates the Amazon States Language's paths, templates and choices, as far as the definitions use them.

Data is copied, never changed in place, so states can share it. Unknown constructs raise Unsupported, because
a simulation that skips one proves nothing.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

_PATH = re.compile(r"\$\$?(\.\w+)*")
_FORMAT = re.compile(r"States\.Format\('([^']*)'((?:, \$\$?(?:\.\w+)*)*)\)")
_ADD = re.compile(r"States\.MathAdd\((\$(?:\.\w+)*), (\$(?:\.\w+)*)\)")
_COMPARED = {"BooleanEquals": bool, "NumericGreaterThan": int, "StringEquals": str}
"""Supported comparison operators of a Choice, each with the type that it compares."""

_TEXT = {str}
_TO_STRING = re.compile(r"States\.JsonToString\((\$\$?(?:\.\w+)*)\)")


_NO_CONTEXT = object()
"""Stands for the context in a `ResultSelector`, whose paths cannot read it."""


class Unsupported(Exception):
    """The definition has an unknown construct, or reads a missing field."""


def only(fields: Mapping[str, Any], known: set[str], where: str) -> None:
    """Raise Unsupported if a part of a definition has an unknown field."""
    if not fields.keys() <= known:
        raise Unsupported(f"{where}: {', '.join(sorted(fields.keys() - known))}")


def sent(data: Any) -> Any:
    """Return data as it arrives after a transfer in JSON."""
    kind = type(data)
    if kind is str or kind is int or kind is bool or data is None:
        return data
    if kind is dict and {*map(type, data)} <= _TEXT:
        return {name: member if type(member) is str else sent(member) for name, member in data.items()}
    if kind is list:
        return [sent(member) for member in data]
    return json.loads(json.dumps(data))


def read(path: str, data: Any, context: Any) -> Any:
    """Return the value at a path. Raises Unsupported if missing: AWS fails such an execution."""
    steps = _steps(path)
    value = context if path.startswith("$$") else data
    if value is _NO_CONTEXT:
        raise Unsupported(f"{path} in a ResultSelector")
    for name in steps:
        if not isinstance(value, dict) or name not in value:
            raise Unsupported(f"{path} is not there in {json.dumps(data)}")
        value = value[name]
    return value


@cache
def _steps(path: str) -> tuple[str, ...]:
    if not _PATH.fullmatch(path):
        raise Unsupported(f"path {path}")
    return tuple(path.split(".")[1:])


def evaluate(expression: str, data: Any, context: Any) -> Any:
    if expression.startswith("$"):
        return read(expression, data, context)
    if match := _FORMAT.fullmatch(expression):
        values = [read(path, data, context) for path in match[2].split(", ")[1:]]
        if match[1].count("{}") != len(values):
            raise Unsupported(expression)
        return match[1].format(*values)
    if match := _TO_STRING.fullmatch(expression):
        return json.dumps(read(match[1], data, context))
    if match := _ADD.fullmatch(expression):
        numbers = [read(path, data, context) for path in match.groups()]
        if not {*map(type, numbers)} <= {int}:
            raise Unsupported(f"{expression} of {numbers}")
        return sum(numbers)
    raise Unsupported(expression)


def fill(template: Any, data: Any, context: Any) -> Any:
    """Fill `Parameters` or `ResultSelector`: fields ending in `.$` are read from data or context."""
    if isinstance(template, dict):
        filled = {}
        for name, value in template.items():
            if name.endswith(".$"):
                filled[name.removesuffix(".$")] = evaluate(value, data, context)
            else:
                filled[name] = fill(value, data, context)
        return filled
    if isinstance(template, list):
        return [fill(member, data, context) for member in template]
    return template


def select(template: Any, result: Any) -> Any:
    if template is None:
        return result
    if not isinstance(template, dict):
        raise Unsupported(f"ResultSelector {template!r}")
    return fill(template, result, _NO_CONTEXT)


def put(data: Any, path: str | None, result: Any) -> Any:
    """Put the result at a `ResultPath` of the input; None discards it."""
    if path is None:
        return data
    if path == "$":
        return result
    if not re.fullmatch(r"\$(\.\w+)+", path) or not isinstance(data, dict):
        raise Unsupported(f"ResultPath {path}")
    first, _, rest = path.removeprefix("$.").partition(".")
    return {**data, first: put(data.get(first, {}), f"$.{rest}", result) if rest else result}


def holds(choice: Mapping[str, Any], data: Any) -> bool:
    if "And" in choice:
        only(choice, {"And", "Next"}, "choice")
        return all(holds(part, data) for part in choice["And"])
    only(choice, {"Variable", *_COMPARED, "IsPresent", "Next"}, "choice")
    (operator,) = choice.keys() - {"Variable", "Next"}
    wanted = choice[operator]
    if operator == "IsPresent":
        return _is_present(choice["Variable"], data) is wanted
    value = read(choice["Variable"], data, None)
    if type(value) is not _COMPARED[operator]:
        raise Unsupported(f"{operator} of {value!r}")
    return bool(value > wanted if operator == "NumericGreaterThan" else value == wanted)


def _is_present(path: str, data: Any) -> bool:
    try:
        read(path, data, None)
    except Unsupported:
        return False
    return True
