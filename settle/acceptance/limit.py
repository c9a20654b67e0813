"""Limits a check's time by a timer of the operating system, which also ends a blocked call."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Overdue(BaseException):
    """The time limit is over. It is a BaseException, because boto3 would retry an Exception."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise Overdue in the main thread if the block takes over `seconds`."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Overdue

    earlier = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)
