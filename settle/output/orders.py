"""Orders as a table; these and entries as CSV and as JSON, printed page by page as they are read."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from settle.output.console import note, out, print_json, print_line, print_table
from settle.output.printable import printable

_SHOWN = (
    *("when", "order", "key", "account", "amount", "payment", "currency"),
    *("by", "approved_by", "break_glass", "request_id", "reason"),
)
NONE = "no order is on record in this time"
_FORMULAS = ("=", "+", "-", "@")
"""A spreadsheet takes a cell that begins so for a formula, and a reason is a person's text."""


def as_table(pages: Iterable[Sequence[Mapping[str, str]]]) -> None:
    """Print a table for each page."""
    is_empty = True
    for page in pages:
        is_empty = False
        print_table(page, _SHOWN, right=("amount", "payment"))
    if is_empty:
        print_line(NONE)


def as_json(pages: Iterable[Sequence[Mapping[str, str]]], none: str = NONE) -> None:
    """Print one JSON object a line for each; that there is none is a note beside them."""
    is_empty = True
    for page in pages:
        for order in page:
            is_empty = False
            print_json(order)
    if is_empty:
        note(none)


def as_csv(pages: Iterable[Sequence[Mapping[str, str]]], fields: Sequence[str]) -> None:
    """Print a line with the names of the fields, and one for each order or entry (RFC 4180)."""
    _print_csv([fields])
    for page in pages:
        _print_csv([[csv_cell(order[name]) for name in fields] for order in page])


def _print_csv(lines: Iterable[Sequence[str]]) -> None:
    written = io.StringIO()
    csv.writer(written).writerows(lines)
    out.file.write(written.getvalue())
    out.file.flush()


def csv_cell(value: str) -> str:
    """Return a cell of a text that a spreadsheet shows, and does not compute."""
    text = printable(value)
    return f"'{text}" if text.startswith(_FORMULAS) else text
