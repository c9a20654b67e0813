"""The rooms that the core runs with, where a function of the core meets them.

A room is gone with its lines, and the core runs on. No other module of the core imports one.
"""

import os
from collections.abc import Callable
from functools import partial

from settlement.adapters.dynamodb import Store
from settlement.ledger.expiry import with_expiry
from settlement.ledger.keys import Row
from settlement.model.stage_config import StageConfig
from settlement.model.state import SettlementState
from settlement.sealing.signature import RowKeys

row_keys = RowKeys.from_text(os.environ.get("ROW_KEYS", ""))
"""The keys that the deployment gives this function: none to one that puts no signed row."""


def adds(config: StageConfig) -> tuple[Callable[[Row], Row], ...]:
    """Return what the stage adds to a row that is put, in turn: the end of its time, and a signature."""
    return (partial(with_expiry, retention_days=config.retention_days), row_keys.signed)


def before_refund(store: Store, state: SettlementState) -> None:
    """Make what a payee has received available, before a part or all of it is taken back.

    Raises StoreUnavailable and the payee's refusals.
    """
    from settlement.adapters import sweeper  # only two functions need it  # noqa: PLC0415

    sweeper.before_refund(store, state)
