"""A person's order on an account: carry it out, once, and keep it on record."""

from datetime import datetime, timedelta
from typing import Any

from handlers import _dependencies
from settlement.adapters import sweeper
from settlement.ledger.keys import Row
from settlement.model.account_order import AccountOrder, OrderKind, parse_account_order
from settlement.model.accounts import is_merchant
from settlement.model.caller import Caller
from settlement.model.errors import AccountNotEmpty, AccountNotFound
from settlement.model.stored import sound
from settlement.model.timestamps import timestamp
from settlement.policy import administration

SWEPT_BEFORE_CLOSE = timedelta(days=1)
"""How far back a merchant is swept before it is closed. The stream's sweeper is behind by seconds; what it
has left for longer is named by the proof.
"""

SWEEP_TIME = timedelta(seconds=3)
"""How long an order to close begins further sweeps. The function has 8 s."""


def carry_out(body: object, caller: Caller) -> dict[str, Any]:
    """Return the order as it is on record, by this call or an earlier one, and the account's state now.

    Raises InvalidRequest, IdempotencyConflict and the account's refusals, none of which leaves a trace in the
    table, but the sweep before a merchant is closed.
    """
    store, config = _dependencies.store, _dependencies.config
    order, now = parse_account_order(body, caller, config), _dependencies.now()
    if order.order is OrderKind.CLOSE and is_merchant(order.account):
        _sweep(order.account, now)
    recorded = store.record(administration.carry_out(order, now, config))
    state = store.account(order.account)
    if state is None:  # no function deletes an account
        raise AccountNotFound("account")
    order_on_record = AccountOrder.from_row(recorded).to_wire(config)
    return {
        "order": order_on_record | {"posted_at": sound(recorded)["posted_at"]},
        "account": state.to_wire(config),
    }


def _sweep(merchant: str, now: datetime) -> None:
    """Add a merchant's releases to its balance, which has to be zero. Raises AccountNotEmpty, if too many."""
    store, until = _dependencies.store, now + SWEEP_TIME
    state = store.account(merchant)
    if state is None or state.is_closed:
        return
    since = timestamp(now - SWEPT_BEFORE_CLOSE)
    aside: list[Row] = []

    def put_aside(key: Row, reason: str) -> None:
        sweeper.warn(key, reason)
        aside.append(key)

    _, left = sweeper.fold_backlog(
        *(store, state, since, None), is_over=lambda: _dependencies.now() >= until, unreadable=put_aside
    )
    if left:
        raise AccountNotEmpty("account", "it still receives releases: close it after a day without any")
    if aside:
        raise AccountNotEmpty("account", "it has releases that cannot be read: see `settle reconcile`")
