import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDINGS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a process. Ctrl-C already raises an exception."""


@contextmanager
def undoable() -> Iterator[None]:
    """Raise SystemExit on a signal that would kill the process, so that cleanup runs.

    An ignored signal stays ignored.
    """
    replaced = [one for one in _ENDINGS if signal.getsignal(one) is signal.SIG_DFL]
    for one in replaced:
        signal.signal(one, _end)
    try:
        yield
    finally:
        for one in replaced:
            signal.signal(one, signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)  # the exit code that shells show
