"""The limit in time of a check: a timer of the operating system, which ends a blocked call, too."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Overdue(BaseException):
    """The time is over. It is no Exception: boto3 takes those for failures of a call, and repeats it."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise Overdue in the main thread after some seconds, unless the block has ended before."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Overdue

    earlier = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)
