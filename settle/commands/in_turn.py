from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar

import typer

from settle.exit_codes import Exit
from settle.output import console

_Request = TypeVar("_Request")


@dataclass(frozen=True)
class Answered:
    """A request's answer. If `show` cannot print, `note` is printed instead."""

    code: Exit
    note: str
    show: Callable[[], None]


def in_turn(requests: Sequence[_Request], answer: Callable[[_Request], Answered], counted: str) -> NoReturn:
    """Answer each request, show the answer, and exit with the gravest code.

    A broken output does not stop the work.
    """
    codes: list[Exit] = []
    is_written = True
    with console.counted(codes, len(requests), counted):
        for request in requests:
            one = answer(request)
            codes.append(one.code)
            is_written = is_written and console.is_written(one.show)
            if not is_written:
                console.note(one.note)
    if not is_written:
        console.note(f"settle: {len(codes)} of {len(requests)} {counted}")
        codes.append(Exit.FAILED)
    raise typer.Exit(max(codes, key=lambda code: code.gravity))
