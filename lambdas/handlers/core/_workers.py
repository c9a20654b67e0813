"""Work on many things at once: threads, and the pace that they keep together."""

import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Lock
from typing import TypeVar

from handlers import _dependencies

Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS = 8
"""The settlements, or merchants, that one function works on at once. A look waits for services most of its
time: some 60 to 120 ms, so that eight threads look at some 100 settlements a second. botocore keeps ten
connections open.
"""


def starts_per_second() -> float:
    """Return the pace of recovery: the share of one partition in the stage's `recovery_starts_per_second`."""
    return float(os.environ["STARTS_PER_SECOND"])


def each(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Call `function` for each item, in some threads; return the results in the order of the items."""
    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(function, items))


def pause(seconds: float) -> None:
    """Let time pass."""
    time.sleep(seconds)


class Pace:
    """A rate that threads keep together, evenly: time that they have not used is lost."""

    def __init__(self, per_second: float) -> None:
        self._interval = timedelta(seconds=1 / per_second)
        self._lock = Lock()
        self._next: datetime | None = None

    def wait(self) -> None:
        """Wait for the next turn."""
        now = _dependencies.now()
        with self._lock:
            turn = max(now, self._next or now)
            self._next = turn + self._interval
        if turn > now:
            pause((turn - now).total_seconds())
