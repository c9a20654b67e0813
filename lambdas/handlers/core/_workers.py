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
"""Threads that look at settlements. A look waits 60 to 120 ms, so eight threads do about 100 a second.

botocore keeps ten connections.
"""


def starts_per_second() -> float:
    return float(os.environ["STARTS_PER_SECOND"])


def each(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(function, items))


def pause(seconds: float) -> None:
    time.sleep(seconds)


class Pace:
    """Spreads the calls of all threads evenly over time. Unused calls do not accumulate."""

    def __init__(self, per_second: float) -> None:
        self._interval = timedelta(seconds=1 / per_second)
        self._lock = Lock()
        self._next: datetime | None = None

    def wait(self) -> None:
        now = _dependencies.now()
        with self._lock:
            turn = max(now, self._next or now)
            self._next = turn + self._interval
        if turn > now:
            pause((turn - now).total_seconds())
