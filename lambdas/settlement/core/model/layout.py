"""The layouts of a settlement's row: the forms of its attributes, in the order in which releases learnt them.

A row names in `layout` the newest one of which it has a form; without it, it has only forms of the first. So
a release tells a row that it can read from one of a later release. The stage's `row_layout` is the newest
that its functions write: a release first learns to read one, and a later deployment lets functions write it.
See docs/operating/migrating.md.
"""

from collections.abc import Mapping
from typing import Any

FIRST = 1

PARTS_COUNTED_BY_NAME = 2
"""`reversals_in_part` counts the reversals in part. In the first layout, the attribute is `parts`."""

NEWEST = PARTS_COUNTED_BY_NAME
"""The newest layout that this release reads, and may write."""


def ensure_read(row: Mapping[str, Any]) -> None:
    """Raise ValueError if this release cannot read a row of this layout."""
    layout: int = row.get("layout", FIRST)
    if not FIRST <= layout <= NEWEST:
        raise ValueError(f"has layout {layout}, and this release reads up to {NEWEST}")


def parts_of(row: Mapping[str, Any]) -> int:
    """Return the number of reversals in part, by either layout of the row."""
    name = "reversals_in_part" if "reversals_in_part" in row else "parts"
    parts: int = row.get(name, 0)
    return parts
