"""CSV (RFC 4180). Programs get the texts unchanged; a spreadsheet gets no formulas."""

import csv
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from settle.output.console import out
from settle.output.printable import printable

_FORMULAS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters that a spreadsheet takes for a formula, in the normal or the wide form."""


def text(
    lines: Iterable[Mapping[str, Any]],
    fields: Sequence[str],
    numbers: Collection[str] = (),
    *,
    guarded: bool = False,
    head: bool = True,
) -> str:
    """Return CSV: a line with the field names, then the `lines`. Spaces join the elements of a list.

    If `guarded`, a cell that looks like a formula gets a leading `'`. The fields in `numbers` get none: they
    may be negative.
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
    """Print the field names. Then print each page as soon as it is read."""
    out.file.write(text((), fields))
    for page in pages:
        out.file.write(text(page, fields, numbers, guarded=guarded, head=False))
        out.file.flush()


def _cell(value: Any, guard: bool) -> str:
    if value is None:
        return ""
    shown = printable(" ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value))
    return f"'{shown}" if guard and shown.startswith(_FORMULAS) else shown
