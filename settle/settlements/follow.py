import time
from collections.abc import Callable

from settle.settlements.settlement import state_of
from settle.stack import Stack
from settlement.core.model.state import SettlementState
from settlement.core.model.status import FINISHED, Status

FOLLOW_SECONDS_MAX = 120
"""Longest wait for a settlement's end: reversals in trouble retry for minutes."""

_POLL_SECONDS = 0.25


def follow(
    stack: Stack,
    key: str,
    is_done: Callable[[SettlementState], bool],
    seconds_max: float | None = None,
) -> SettlementState:
    seconds = FOLLOW_SECONDS_MAX if seconds_max is None else seconds_max
    give_up_at = time.monotonic() + seconds
    while True:
        state = state_of(stack, key)
        if is_done(state) or time.monotonic() > give_up_at:
            return state
        time.sleep(_POLL_SECONDS)


def is_at_rest(state: SettlementState) -> bool:
    return state.status in FINISHED or state.status is Status.LIMBO
