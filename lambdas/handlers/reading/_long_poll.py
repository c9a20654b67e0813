import time
from collections.abc import Callable

from handlers import _dependencies
from settlement.core.model.errors import SettlementNotFound
from settlement.core.model.state import SettlementState
from settlement.core.model.status import FINISHED
from settlement.reading.queries import OutcomeQuery

PAUSE_SECONDS = 1
"""Pause between reads. Each read costs a unit."""

_RESERVED_SECONDS = 6
"""Time kept for a read: DynamoDB's client tries twice, for 3 s each."""


def read(query: OutcomeQuery, left_ms: int) -> SettlementState:
    """Return the settlement once its sequence exceeds `after`, or time is out. Raises SettlementNotFound.

    An unclaimed key has sequence 0, because a caller of the start queue may wait for the claim. Reads are
    consistent, so sequences never fall.
    """

    def is_news(state: SettlementState | None) -> bool:
        return query.after is None or (state.sequence if state else 0) > query.after

    return _poll(query.key, query.wait, left_ms, is_news)


def finished(key: str, wait: int, left_ms: int) -> SettlementState:
    def is_finished(state: SettlementState | None) -> bool:
        return state is not None and state.status in FINISHED

    return _poll(key, wait, left_ms, is_finished)


def _poll(
    key: str, wait: int, left_ms: int, is_awaited: Callable[[SettlementState | None], bool]
) -> SettlementState:
    until = time.monotonic() + min(wait, left_ms // 1000 - _RESERVED_SECONDS)
    while True:
        state = _dependencies.store.settlement(key)
        left = until - time.monotonic()
        if left <= 0 or is_awaited(state):
            break
        time.sleep(min(PAUSE_SECONDS, left))
    if state is None:
        raise SettlementNotFound("key: no request has claimed it")
    return state
