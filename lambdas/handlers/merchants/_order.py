"""Orders on merchants. They sweep releases whose stream record was lost, and sweep before a close."""

from datetime import datetime, timedelta
from typing import Any

from handlers import _dependencies
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import money
from settlement.core.model.accounts import is_merchant
from settlement.core.model.errors import AccountNotEmpty, AccountNotFound
from settlement.core.model.state import AccountState
from settlement.core.model.timestamps import timestamp
from settlement.http.caller import Caller
from settlement.merchants import sweeper
from settlement.merchants.order import SWEEP, parse_sweep
from settlement.merchants.sweep import Span

TIME = timedelta(seconds=3)
"""Time for sweeps. The function has 8 s, and a sweep takes up to 2 s."""

SWEPT_BEFORE_CLOSE = timedelta(days=1)
"""How far back a close sweeps. The sweeper lags by seconds. The proof finds older unswept releases."""


def sweep(body: object, caller: Caller) -> dict[str, Any]:
    """Sweep a merchant. Return the added amounts by minute.

    If time ran out, `more` is true and the next call continues at `from`. Unreadable rows do not block other
    minutes. Nothing is recorded: no money changes accounts. Raises InvalidRequest, AccountNotFound,
    StoreUnavailable and the account's refusals.
    """
    merchant, since, come = parse_sweep(body)
    partitions = keys.entry_partitions(merchant)
    begin = Span(partitions[come[0]], come[1]) if come else None
    state = _dependencies.store.account(merchant)
    if state is None:
        raise AccountNotFound("account")
    exponent = state.exponent(_dependencies.config)
    minutes, left, aside = _fold(state, since, begin)
    return {
        "account": merchant,
        "currency": state.currency,
        "folded": money.render(sum(minutes.values()), exponent),
        "minutes": [
            {"minute": minute, "folded": money.render(folded, exponent)}
            for minute, folded in sorted(minutes.items())
        ],
        "unreadable": [{"row": row, "reason": reason} for row, reason in sorted(aside.items())],
        "more": left is not None,
        "from": f"{partitions.index(left.partition)}#{left.minute}" if left else None,
    }


def before_close(account: str, now: datetime) -> None:
    """Sweep a merchant. Raises AccountNotEmpty if a release is unreadable or time runs out."""
    state = _dependencies.store.account(account) if is_merchant(account) else None
    if state is None or state.is_closed:
        return
    _, left, aside = _fold(state, timestamp(now - SWEPT_BEFORE_CLOSE), None)
    if left:
        raise AccountNotEmpty("account", "it still receives releases: close it after a day without any")
    if aside:
        raise AccountNotEmpty("account", "it has releases that cannot be read: see `settle reconcile`")


def _fold(
    merchant: AccountState, since: str, begin: Span | None
) -> tuple[dict[str, int], Span | None, dict[str, str]]:
    until, aside = _dependencies.now() + TIME, dict[str, str]()

    def put_aside(key: Row, reason: str) -> None:
        sweeper.warn(key, reason)
        aside[key["sk"]] = reason

    minutes, left = sweeper.fold_backlog(
        *(_dependencies.store, merchant, since, begin),
        is_over=lambda: _dependencies.now() >= until,
        unreadable=put_aside,
    )
    return minutes, left, aside


ORDERS = {SWEEP: (sweep, None)}
