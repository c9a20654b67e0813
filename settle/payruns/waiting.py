import time
from collections.abc import Callable
from typing import Any

from settle import instants
from settle.payruns import on_record
from settle.payruns.on_record import OnRecord
from settle.stack import Stack
from settlement.payruns.run import ENDED, Run, Status

PAUSE_SECONDS = 2.0


def until_over(stack: Stack, name: str, timeout: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Wait until a run has ended, or for `timeout` seconds; return it as it is then. Raises CommandFailed."""
    one = on_record.find(stack, name)
    first, began = one.state, time.monotonic()
    until = began + timeout
    while one.state.status not in ENDED and (now := time.monotonic()) < until:
        tell(progress_of(one, left_seconds(first, one.state, now - began)))
        time.sleep(min(PAUSE_SECONDS, max(0.0, until - time.monotonic())))
        one = on_record.of(stack, one.state.run)
    return on_record.described(stack, one)


def progress_of(one: OnRecord, left: float | None = None) -> str:
    state = one.state
    time_left = "" if left is None else f", {instants.lapse(left)} left"
    return f"{state.status}: {state.started} of {state.last} lines started, {state.ended} ended{time_left}"


def left_seconds(first: Run, state: Run, seconds: float) -> float | None:
    """Return the seconds until the last line starts, at the rate since `first`. None: unknown rate."""
    started = state.started - first.started
    if state.status is not Status.RUNNING or started <= 0:
        return None
    return (state.last - state.started) * seconds / started
