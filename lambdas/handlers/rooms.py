"""The rooms that the core and other rooms run with, where they meet them.

A room is gone with its lines, and the rest runs on. The rooms that only some functions need are imported when
these ask for them: what a function imports is a part of its cold start.
"""

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from settlement.core.ledger.keys import Row
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.store.dynamodb import Store
from settlement.retention.expiry import with_expiry
from settlement.signing.signature import RowKeys

Take = Callable[[object, Any], dict[str, Any]]
"""Carries out an order: from the body and the caller, the order as it is on record."""

row_keys = RowKeys.from_text(os.environ.get("ROW_KEYS", ""))
"""The keys that the deployment gives this function: none to one that puts no signed row."""


def adds(config: StageConfig) -> tuple[Callable[[Row], Row], ...]:
    """Return what the stage adds to a row that is put, in turn: the end of its time, and a signature."""
    return (partial(with_expiry, retention_days=config.retention_days), row_keys.signed)


def before_refund(store: Store, state: SettlementState) -> None:
    """Make what a payee has received available, before a part or all of it is taken back.

    Raises StoreUnavailable and the payee's refusals.
    """
    from settlement.merchants import sweeper

    sweeper.before_refund(store, state)


def before_close(account: str, now: datetime) -> None:
    """Make what an account has received available, before it is closed. Raises AccountNotEmpty."""
    from handlers.merchants import _order

    _order.before_close(account, now)


def orders() -> Mapping[str, tuple[Take, str | None]]:
    """Return the orders of rooms besides `orders`, by the last part of their route.

    Beside each is the field of its body that repeats the route, if it has one.
    """
    from handlers.accounts import _account_orders
    from handlers.events import _replay
    from handlers.kyc import _probe
    from handlers.merchants import _order
    from settlement.accounts.order import OrderKind
    from settlement.events.replay import REPLAY
    from settlement.kyc.circuit import PROBE
    from settlement.merchants.order import SWEEP

    return {
        **dict.fromkeys(map(str, OrderKind), (_account_orders.carry_out, "order")),
        REPLAY: (_replay.replay, None),
        PROBE: (_probe.probe, None),
        SWEEP: (_order.sweep, None),
    }
