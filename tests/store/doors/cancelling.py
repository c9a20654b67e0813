from datetime import datetime

from settlement.core.model.state import SettlementState
from settlement.doors import cancellation
from tests.world.environment import NOW
from tests.world.saga import Saga


def cancel(saga: Saga, seen: int | None = None, now: datetime = NOW) -> SettlementState:
    """Cancel as CancelSettlement does, before the hold or in review."""
    write = cancellation.in_review if saga.state().is_in_review else cancellation.before_hold
    return saga.ledger.store.update(write(saga.settlement, now, seen))
