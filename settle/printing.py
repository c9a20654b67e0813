"""Where a command prints, and how it lays out a value, a cell and a table."""

import json
import sys
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table

_PLAIN_WIDTH = 120
out = Console(markup=False, emoji=False, highlight=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
err = Console(markup=False, emoji=False, highlight=False, stderr=True)


def print_table(lines: list[dict[str, Any]], columns: tuple[str, ...], right: tuple[str, ...]) -> None:
    """A table with a line for each of `lines`; the columns `right` are amounts, flush right."""
    table = Table(box=box.SIMPLE)
    for column in columns:
        # A key or an amount that is cut short is of no use to whoever must type it.
        whole = column in ("key", *right)
        width = max((len(cell(line[column])) for line in lines), default=0) if whole else None
        justify: Literal["right", "left"] = "right" if column in right else "left"
        table.add_column(column.replace("_", " "), justify=justify, min_width=width, overflow="fold")
    for line in lines:
        table.add_row(*(cell(line[column]) for column in columns))
    out.print(table)


def print_json(value: Any) -> None:
    """One JSON value, a line that a reader at the other end of a pipe gets at once."""
    print(json.dumps(value), flush=True)


def cell(value: Any) -> str:
    """A value as a table or a record shows it; nothing for None."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
