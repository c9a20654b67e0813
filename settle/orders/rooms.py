"""People's orders in the removable rooms. To remove a room, remove its line."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module

from settle.settlements import aside
from settle.stack import Stack

ROOMS: Mapping[str, str] = {
    "payouts": "settle.payouts.ordered",
    "payruns": "settle.payruns.ordered",
}
"""Modules whose function `lines` yields a room's orders."""


def lines(stack: Stack, fields: Sequence[str], first: str, last: str) -> Iterator[aside.Line]:
    """Yield the rooms' orders from time `first` to before `last`, unsorted. Each has all `fields`."""
    for name in ROOMS.values():
        yield from import_module(name).lines(stack, fields, first, last)
