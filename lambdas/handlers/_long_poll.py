"""A settlement's outcome for a reader: as it is, or as soon as it has changed."""

import time

from handlers import _dependencies
from settlement.model.errors import SettlementNotFound
from settlement.model.state import SettlementState
from settlement.policy.reading import OutcomeQuery

PAUSE_SECONDS = 1
"""The pause between two looks at the row. Each look is one read unit."""

_RESERVED_SECONDS = 6
"""What a last look may take, at worst: DynamoDB's client tries twice, for three seconds each."""


def read(query: OutcomeQuery, left_ms: int) -> SettlementState:
    """Return the settlement, with a sequence above `after` if it has one in time. Raises SettlementNotFound.

    A key that is not claimed yet counts as 0: a caller of the start queue may wait for the claim. Every
    read is consistent, so that no answer has a lower sequence than an earlier one.
    """
    patience = min(query.wait, left_ms // 1000 - _RESERVED_SECONDS)
    until = time.monotonic() + patience
    while True:
        state = _dependencies.store.settlement(query.key)
        sequence = state.sequence if state else 0
        left = until - time.monotonic()
        if left <= 0 or query.after is None or sequence > query.after:
            break
        time.sleep(min(PAUSE_SECONDS, left))
    if state is None:
        raise SettlementNotFound("key: no request has claimed it")
    return state
