"""CSV (RFC 4180): for programs as it is, for a spreadsheet without formulas."""

import csv
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from settle.output.console import out
from settle.output.printable import printable

_FORMULAS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""A spreadsheet takes a cell that begins so, also in the wide form, for a formula. A reason is text."""


def text(
    lines: Iterable[Mapping[str, Any]],
    fields: Sequence[str],
    numbers: Collection[str] = (),
    *,
    guarded: bool = False,
    head: bool = True,
) -> str:
    """Return a line with the names of the fields, and one for each of `lines`.

    If `guarded`, a cell that a spreadsheet would take for a formula begins with `'`; `numbers` are fields of
    ours, which may begin with a minus. A list is its elements with a space between.
    """
    written = io.StringIO()
    rows = csv.writer(written)
    if head:
        rows.writerow(fields)
    guards = {name: guarded and name not in numbers for name in fields}
    rows.writerows([_cell(line.get(name), guard) for name, guard in guards.items()] for line in lines)
    return written.getvalue()


def show(
    pages: Iterable[Iterable[Mapping[str, Any]]],
    fields: Sequence[str],
    numbers: Collection[str] = (),
    *,
    guarded: bool,
) -> None:
    """Print pages as they are read, below one line with the names of the fields."""
    out.file.write(text((), fields))
    for page in pages:
        out.file.write(text(page, fields, numbers, guarded=guarded, head=False))
        out.file.flush()


def _cell(value: Any, guard: bool) -> str:
    """Return a cell; with a guard, one that a spreadsheet shows and does not compute."""
    if value is None:
        return ""
    shown = printable(" ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value))
    return f"'{shown}" if guard and shown.startswith(_FORMULAS) else shown
