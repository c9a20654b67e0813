"""The two consoles, and the layout of a line, a record and a table. All text passes `printable`.

Nothing is cut, and no value is broken: a key, an ARN or a command is there to be copied. A character that the
locale lacks is escaped. An answer that cannot be written raises OSError; a note that cannot is dropped.
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
    """Standard output. Rich itself would end the program at a closed pipe."""

    def on_broken_pipe(self) -> None:
        """Raise the error that rich has caught."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class _Notes(_Answers):
    """Standard error: the work goes on if nobody reads it."""

    def print(self, *objects: Any, **layout: Any) -> None:
        """Print, or drop what cannot be written."""
        with suppress(OSError):
            super().print(*objects, **layout)


out = _Answers(markup=False, emoji=False, highlight=False)
err = _Notes(markup=False, emoji=False, highlight=False, stderr=True)
_GAP = "  "
_Told = TypeVar("_Told")
_More = ParamSpec("_More")


def escape_unknown() -> None:
    """Let both streams escape the characters that their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def is_written(show: Callable[[], None]) -> bool:
    """Show an answer; return whether the output took it. A closed pipe or a full disk stops no work.

    The output is let go then: Python would try once more at its end, and fail.
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
    """Say how much of a batch is done if something stops it, Ctrl-C too."""
    try:
        yield
    except BaseException:
        note(f"settle: {len(done)} of {total} {what}")
        raise


def print_line(text: str = "", style: str | None = None) -> None:
    """Print one line, however long, on standard output."""
    out.print(printable(text), style=style, soft_wrap=True)


def note(text: str) -> None:
    """Print a line beside the answer, on standard error."""
    err.print(printable(text), soft_wrap=True)


def name_unreadable(lines: Iterable[Mapping[str, Any]]) -> None:
    """Name the rows of a list that cannot be read; end the command as failed if there are any."""
    unreadable = [one["unreadable"] for one in lines if "unreadable" in one]
    for told in unreadable:
        note(f"settle: cannot be read: {told}; see `settle reconcile`")
    if unreadable:
        raise typer.Exit(Exit.FAILED)


def print_json(value: Any) -> None:
    """Print one JSON value on one line, flushed at once for the reader at the other end of a pipe."""
    print(json.dumps(value).replace("\x7f", "\\u007f"), flush=True)


def or_json(
    show: Callable[Concatenate[_Told, _More], None],
) -> Callable[Concatenate[_Told, bool, _More], None]:
    """Let a function that prints an answer for people print it as JSON if its second argument is true."""

    @wraps(show)
    def either(told: _Told, as_json: bool, /, *more: _More.args, **named: _More.kwargs) -> None:
        if as_json:
            print_json(told)
        else:
            show(told, *more, **named)

    return either


def print_record(fields: Mapping[str, Any], as_json: bool = False) -> None:
    """Print one record, a field a line."""
    if as_json:
        print_json(fields)
        return
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        print_line(f"{name:<{width}}{_GAP}{cell(value)}".rstrip())


def print_table(
    lines: Sequence[Mapping[str, Any]], columns: Sequence[str], right: Collection[str] = ()
) -> None:
    """Print a line for each of `lines`; the columns `right` are amounts, flush right.

    On a terminal that is too narrow, each of them takes several lines, and its values keep their names.
    In a file or a pipe a line may have any length: there, grep finds it whole.
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
    """Print the first value, then the others with their names, as many on a line as fit."""
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
    """Return the columns of the terminal, or those that COLUMNS names; no limit for a file or a pipe."""
    return out.width if out.is_terminal or "COLUMNS" in os.environ else float("inf")


def cell(value: Any) -> str:
    """Return a value as a table or a record shows it; nothing for None."""
    if value is None:
        return ""
    return printable(value if isinstance(value, str) else json.dumps(value))
