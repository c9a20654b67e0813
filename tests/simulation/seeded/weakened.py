"""Production code with one condition taken out of one write: what the simulator must be able to notice."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any
from unittest import mock

from settlement import conditions, items, limbo, recovery, reversals, reviews, writes
from settlement.writes import Write

MODULES = (items, limbo, recovery, reversals, reviews)
NAMES = {text: name for name, text in vars(conditions).items() if name.isupper()}
"""The conditions' names by their texts."""

_CASES: dict[str, Callable[[dict[str, Any]], str]] = {
    "limbo.enter": lambda known: "as it is done" if known["case"].done else "as it is stuck",
    "limbo.leave": lambda known: str(known["resolution"].decision),
    "recovery._take": lambda known: (
        "OVERDUE" if "given_up_at" in known["changes"] else known["row"]["status"]
    ),
    "reversals.begin": lambda known: "for anybody" if known["owner"] is None else "for its owner",
}
"""What a function's conditions depend on, where that is no step."""

Change = Callable[[Write, str], Write]
Atom = tuple[str, str]
"""A condition of a write, by the place where that is made and its own name."""


class Placed(str):
    """A condition's text that knows in which place of the code its write is made."""

    place = ""


@contextmanager
def placed() -> Iterator[None]:
    """Let each write's condition know where it is made."""

    def mark(write: Write, at: str) -> Write:
        condition = Placed(write.parameters["ConditionExpression"])
        condition.place = at
        return replace(write, parameters={**write.parameters, "ConditionExpression": condition})

    with _changed(mark):
        yield


@contextmanager
def without(atoms: Iterable[Atom]) -> Iterator[None]:
    """Let writes be made without some of their conditions."""

    def weaken(write: Write, at: str) -> Write:
        # The text stays, as DynamoDB wants each value that it is given to be used, but says nothing.
        texts = [getattr(conditions, condition) for place, condition in atoms if place == at]
        demanded = [
            f"({text} OR NOT {text})" if text in texts else text
            for text in write.parameters["ConditionExpression"].split(" AND ")
        ]
        return replace(write, parameters={**write.parameters, "ConditionExpression": " AND ".join(demanded)})

    with _changed(weaken):
        yield


@contextmanager
def demanded() -> Iterator[set[tuple[str, str]]]:
    """Note each condition of each write that is made, as (place, condition)."""
    found: set[tuple[str, str]] = set()

    def note(write: Write, at: str) -> Write:
        found.update(
            (at, NAMES.get(text, text)) for text in write.parameters["ConditionExpression"].split(" AND ")
        )
        return write

    with _changed(note):
        yield found


@contextmanager
def _changed(change: Change) -> Iterator[None]:
    def put(*given: Any) -> Write:
        return change(writes.put(*given), _place(sys._getframe(1)))

    def update(*given: Any, **named: Any) -> Write:
        return change(writes.update(*given, **named), _place(sys._getframe(1)))

    with ExitStack() as stack:
        for module in MODULES:
            for name, replaced in (("put", put), ("update", update)):
                if hasattr(module, name):
                    stack.enter_context(mock.patch.object(module, name, replaced))
        yield


def _place(frame: FrameType) -> str:
    """Which function makes the write, and for which step or in which case: such as `items.advance hold`."""
    module, known = frame.f_globals["__name__"].rpartition(".")[2], frame.f_locals
    place = f"{module}.{frame.f_code.co_name}"
    if place in _CASES:
        return f"{place} {_CASES[place](known)}"
    return f"{place} {re.sub(r':[0-9]+$', '', known['step'])}" if "step" in known else place
