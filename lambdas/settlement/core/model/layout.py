"""The layouts of a settlement's row, in the order of their releases.

A row's `layout` is the newest that it uses. A row without it uses the first. The stage's `row_layout` is the
newest that functions write. A release learns to read a layout; a later deployment writes it:
docs/operating/migrating.md.
"""

from collections.abc import Mapping
from typing import Any

FIRST = 1

PARTS_COUNTED_BY_NAME = 2
"""Layout with `reversals_in_part` in place of the first layout's `parts`."""

NEWEST = PARTS_COUNTED_BY_NAME


def ensure_read(row: Mapping[str, Any]) -> None:
    layout: int = row.get("layout", FIRST)
    if not FIRST <= layout <= NEWEST:
        raise ValueError(f"has layout {layout}, and this release reads up to {NEWEST}")


def parts_of(row: Mapping[str, Any]) -> int:
    name = "reversals_in_part" if "reversals_in_part" in row else "parts"
    parts: int = row.get(name, 0)
    return parts
