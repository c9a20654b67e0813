"""The two consoles, and the layout of a line, a cell and a table. All text passes `printable`."""

import json
import sys
from collections.abc import Mapping
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table

from settle.output.printable import printable

_PLAIN_WIDTH = 120
out = Console(markup=False, emoji=False, highlight=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
err = Console(markup=False, emoji=False, highlight=False, stderr=True)


def print_line(text: str = "", style: str | None = None) -> None:
    """Print one line, however long, on standard output."""
    out.print(printable(text), style=style, soft_wrap=True)


def note(text: str) -> None:
    """Print a line beside the answer, on standard error."""
    err.print(printable(text), soft_wrap=True)


def print_json(value: Any) -> None:
    """Print one JSON value on one line, flushed at once for the reader at the other end of a pipe."""
    print(json.dumps(value).replace("\x7f", "\\u007f"), flush=True)


def print_record(fields: Mapping[str, Any], as_json: bool = False) -> None:
    """Print one record, a field a line."""
    if as_json:
        print_json(fields)
        return
    table = Table.grid(padding=(0, 2))
    for name, value in fields.items():
        table.add_row(name, cell(value))
    out.print(table)


def print_table(lines: list[dict[str, Any]], columns: tuple[str, ...], right: tuple[str, ...]) -> None:
    """Print a table with a line for each of `lines`; the columns `right` are amounts, flush right."""
    table = Table(box=box.SIMPLE)
    for column in columns:
        # A key or an amount that is cut short cannot be typed again.
        whole = column in ("key", *right)
        width = max((len(cell(line[column])) for line in lines), default=0) if whole else None
        justify: Literal["right", "left"] = "right" if column in right else "left"
        table.add_column(column.replace("_", " "), justify=justify, min_width=width, overflow="fold")
    for line in lines:
        table.add_row(*(cell(line[column]) for column in columns))
    out.print(table)


def cell(value: Any) -> str:
    """Return a value as a table or a record shows it; nothing for None."""
    if value is None:
        return ""
    return printable(value if isinstance(value, str) else json.dumps(value))
