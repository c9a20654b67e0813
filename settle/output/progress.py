"""Progress of a command that takes its time, on standard error."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from settle.output.console import err
from settle.output.printable import printable


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Show the current activity: a spinner on a terminal, else a line for each change of it."""
    began = time.monotonic()

    def line(text: str) -> None:
        err.print(f"[{time.monotonic() - began:5.1f} s] {printable(text)}")

    if not err.is_terminal:
        yield line
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("")
        yield lambda text: bar.update(task, description=printable(text))
