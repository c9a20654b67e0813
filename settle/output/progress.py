import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from settle.output.console import err
from settle.output.printable import printable

LINE_SECONDS = 10

Count = Callable[[str, int], None]
"""Shows progress. Takes an activity and its number of finished items."""


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Show activities: as a spinner on a terminal, otherwise as a line per change."""
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


@contextmanager
def counting(estimates: Mapping[str, int]) -> Iterator[Count]:
    """Show counts: as a bar on a terminal, otherwise as a line each ten seconds.

    `estimates` may be incomplete or wrong. A wrong estimate ends no bar early.
    """
    if not err.is_terminal:
        yield _lines(estimates)
        return
    columns = (
        *(SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn()),
        *(_Pace(), TimeElapsedColumn()),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def count(activity: str, done: int) -> None:
            if activity not in tasks:
                tasks[activity] = bar.add_task(activity, total=estimates.get(activity) or None)
            for name, task in tasks.items():
                bar.update(task, visible=name == activity)
            bar.update(tasks[activity], completed=done)

        yield count


class _Pace(ProgressColumn):
    def render(self, task: Task) -> Text:
        total = None if task.total is None else int(task.total)
        return Text(paced(int(task.completed), task.elapsed or 0, total))


def paced(done: int, seconds: float, total: int | None) -> str:
    """Return a text such as "12,000 of some 52,000, 4,000/s, some 0:00:10 left"."""
    pace = done / seconds if seconds else 0
    of = f" of some {total:,}" if total and total > done else ""
    left = f", some {timedelta(seconds=round((total - done) / pace))} left" if of and total and pace else ""
    return f"{done:,}{of}, {pace:,.0f}/s{left}"


def _lines(estimates: Mapping[str, int]) -> Count:
    told = time.monotonic()
    began = dict[str, float]()

    def count(activity: str, done: int) -> None:
        nonlocal told
        now = time.monotonic()
        if not done or activity not in began:  # activities may alternate
            began[activity] = now
        if now - told >= LINE_SECONDS:
            told = now
            pace = paced(done, now - began[activity], estimates.get(activity))
            err.print(f"{activity}: {pace}", soft_wrap=True)

    return count
