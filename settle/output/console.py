"""Prints to standard output and error, and lays out records and tables. All text passes `printable`.

Values are never cut or broken: a person copies keys and commands. A character that the locale lacks is
escaped. An unwritable answer raises OSError; an unwritable note is dropped.
"""

import errno
import io
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import typer
from rich.cells import cell_len, set_cell_size
from rich.console import Console

from settle.exit_codes import Exit
from settle.output.printable import printable


class _Answers(Console):
    """Standard output. It raises OSError at a closed pipe, where Rich would end the program."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class _Notes(_Answers):
    """Standard error that drops unwritable lines, so the work continues."""

    def print(self, *objects: Any, **layout: Any) -> None:
        with suppress(OSError):
            super().print(*objects, **layout)


out = _Answers(markup=False, emoji=False, highlight=False)
err = _Notes(markup=False, emoji=False, highlight=False, stderr=True)
_GAP = "  "
_Told = TypeVar("_Told")
_More = ParamSpec("_More")


def escape_unknown() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def is_written(show: Callable[[], None]) -> bool:
    """Run `show`. Return False if the output cannot be written.

    Later output then goes to the null device: otherwise Python would fail at its exit.
    """
    try:
        show()
    except OSError as failure:
        note(f"settle: output: {failure.strerror or failure}; the work goes on, and the results follow here")
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


@contextmanager
def counted(done: Sequence[object], total: int, what: str) -> Iterator[None]:
    """If anything stops the block, even Ctrl-C, print how many are done."""
    try:
        yield
    except BaseException:
        note(f"settle: {len(done)} of {total} {what}")
        raise


def print_line(text: str = "", style: str | None = None) -> None:
    out.print(printable(text), style=style, soft_wrap=True)


def note(text: str) -> None:
    err.print(printable(text), soft_wrap=True)


def name_unreadable(lines: Iterable[Mapping[str, Any]]) -> None:
    """Name unreadable rows. If there are any, end the command as failed."""
    unreadable = [one["unreadable"] for one in lines if "unreadable" in one]
    for told in unreadable:
        note(f"settle: cannot be read: {told}; see `settle reconcile`")
    if unreadable:
        raise typer.Exit(Exit.FAILED)


def print_json(value: Any) -> None:
    print(json.dumps(value).replace("\x7f", "\\u007f"), flush=True)


def or_json(
    show: Callable[Concatenate[_Told, _More], None],
) -> Callable[Concatenate[_Told, bool, _More], None]:
    """Return a printer. It prints JSON if its second argument is true. Otherwise it calls `show`."""

    @wraps(show)
    def either(told: _Told, as_json: bool, /, *more: _More.args, **named: _More.kwargs) -> None:
        if as_json:
            print_json(told)
        else:
            show(told, *more, **named)

    return either


def print_record(fields: Mapping[str, Any], as_json: bool = False) -> None:
    if as_json:
        print_json(fields)
        return
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        print_line(f"{name:<{width}}{_GAP}{cell(value)}".rstrip())


def print_table(
    lines: Sequence[Mapping[str, Any]], columns: Sequence[str], right: Collection[str] = ()
) -> None:
    """Print a table. The columns in `right`, such as amounts, are flush right.

    On a narrow terminal, a row takes several lines with named values. A file or pipe gets whole lines.
    """
    names = {column: column.replace("_", " ") for column in columns}
    rows = [{column: cell(line[column]) for column in columns} for line in lines]
    widths = {column: max(cell_len(row[column]) for row in (names, *rows)) for column in columns}
    if sum(widths.values()) + len(_GAP) * (len(columns) - 1) > _width():
        for row in rows:
            _print_packed(row, names)
        return
    for row in (names, *rows):
        aligned = (
            row[column].rjust(width) if column in right else set_cell_size(row[column], width)
            for column, width in widths.items()
        )
        print_line(_GAP.join(aligned).rstrip())


def _print_packed(row: Mapping[str, str], names: Mapping[str, str]) -> None:
    first, *others = row
    line = row[first]
    for column in filter(row.get, others):
        named = f"{_GAP}{names[column]}: {row[column]}"
        if cell_len(line + named) > _width():
            print_line(line)
            line = ""
        line += named
    print_line(line)


def _width() -> float:
    return out.width if out.is_terminal or "COLUMNS" in os.environ else float("inf")


def cell(value: Any) -> str:
    if value is None:
        return ""
    return printable(value if isinstance(value, str) else json.dumps(value))
