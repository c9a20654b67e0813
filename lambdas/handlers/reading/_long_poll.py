"""A settlement's row for a caller who waits: as it is, or as soon as it is what the caller waits for."""

import time
from collections.abc import Callable

from handlers import _dependencies
from settlement.core.model.errors import SettlementNotFound
from settlement.core.model.state import SettlementState
from settlement.core.model.status import FINISHED
from settlement.reading.queries import OutcomeQuery

PAUSE_SECONDS = 1
"""The pause between two looks at the row. Each look is one read unit."""

_RESERVED_SECONDS = 6
"""What a last look may take, at worst: DynamoDB's client tries twice, for three seconds each."""


def read(query: OutcomeQuery, left_ms: int) -> SettlementState:
    """Return the settlement, with a sequence above `after` if it has one in time. Raises SettlementNotFound.

    A key that is not claimed yet counts as 0: a caller of the start queue may wait for the claim. Every
    read is consistent, so that no answer has a lower sequence than an earlier one.
    """

    def is_news(state: SettlementState | None) -> bool:
        return query.after is None or (state.sequence if state else 0) > query.after

    return _poll(query.key, query.wait, left_ms, is_news)


def finished(key: str, wait: int, left_ms: int) -> SettlementState:
    """Return the settlement, finished if it is in time. Raises SettlementNotFound."""

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
