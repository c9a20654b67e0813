from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import pytest

TESTS = Path(__file__).parents[1]

T = TypeVar("T")


def brought(lane: str, part: str) -> Iterator[ModuleType]:
    """Import a file of each existing room's tests: `tests/<lane>/<room>/<part>.py`."""
    for file in sorted((TESTS / lane).glob(f"*/{part}.py")):
        yield import_module(f"tests.{lane}.{file.parent.name}.{part}")


OPTIONAL = ("books", "doors", "merchants")
"""Rooms that can be deleted: `tests/core/test_rooms_can_go.py` proves it for each."""

_FUNCTIONS = {
    "ProjectEntries": "books",
    **dict.fromkeys(("StartSettlements", "AcceptSettlements", "CancelSettlement"), "doors"),
    "SweepMerchants": "merchants",
}


def is_there(room: str) -> bool:
    return room not in OPTIONAL or (TESTS.parent / "lambdas/settlement" / room).is_dir()


def is_gone(function: str) -> bool:
    """Return whether a function's room has been deleted; False for unknown functions."""
    return not is_there(_FUNCTIONS.get(function, ""))


def there(room: str, *cases: T) -> tuple[T, ...]:
    """Return these cases, which need a room; return none if the room is deleted."""
    return cases if is_there(room) else ()


def needs(room: str) -> "pytest.MarkDecorator":
    import pytest  # noqa: PLC0415 (the simulators' processes need none)

    return pytest.mark.skipif(not is_there(room), reason="its room has been deleted")
