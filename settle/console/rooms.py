"""Console pages of the removable rooms. To remove a room, remove its line."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from settle.stack import Stack

Describe = Callable[[Stack, Mapping[str, Any]], tuple[str, dict[str, Any]]]
"""Makes a page's template and values from the stack and the path's parameters."""

ROOMS: Mapping[str, str] = {
    "payouts": "settle.payouts.payout_pages",
    "payruns": "settle.payruns.payrun_pages",
}
"""Modules with `PAGES` (functions by path), and `NAME`, the text of the link to the first path."""


def pages() -> dict[str, Describe]:
    return {path: describe for name in ROOMS.values() for path, describe in import_module(name).PAGES.items()}


def links() -> tuple[tuple[str, str], ...]:
    found = map(import_module, ROOMS.values())
    return tuple((next(iter(module.PAGES)), module.NAME) for module in found)
