import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from settle.exit_codes import CommandFailed, Exit
from settle.local import state

WAIT_SECONDS_MAX = 600
"""Longest wait for another command: a deployment takes no longer."""


@contextmanager
def locked() -> Iterator[None]:
    """Serialise `settle local up`, `deploy` and `down`; a crash releases the lock. Raises CommandFailed."""
    with state.usable():
        state.HOME.mkdir(parents=True, exist_ok=True)
        lock = (state.HOME / "lock").open("w")
    give_up_at = time.monotonic() + WAIT_SECONDS_MAX
    with lock:
        while not _try_to_lock(lock):
            if time.monotonic() > give_up_at:
                raise CommandFailed(
                    Exit.CONFLICT, f"another `settle local` has held {state.HOME / 'lock'} for too long"
                )
            time.sleep(0.1)
        yield


def _try_to_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
