"""A person's order to sweep a merchant, for what a lost record of the stream has left."""

from datetime import timedelta
from typing import Any

from handlers import _dependencies
from settlement.adapters import sweeper
from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.ledger.sweep import Span
from settlement.model import money
from settlement.model.caller import Caller
from settlement.model.errors import AccountNotFound
from settlement.model.sweep_order import parse_sweep

TIME = timedelta(seconds=3)
"""How long a call begins further sweeps. The function has 8 s, and one sweep takes up to two of them."""


def sweep(body: object, caller: Caller) -> dict[str, Any]:
    """Make available what a merchant has received and no sweep has reached; return it by minute.

    The answer has `more` if time ran out, and then `from`, with which the next call goes on. It names the
    rows that cannot be read, which hold up no other minute. Nothing is recorded: no money goes to another
    account, and the stream's function does the same unasked.
    Raises InvalidRequest, AccountNotFound, StoreUnavailable, and the account's refusals.
    """
    merchant, since, come = parse_sweep(body)
    partitions = keys.entry_partitions(merchant)
    begin = Span(partitions[come[0]], come[1]) if come else None
    store, until = _dependencies.store, _dependencies.now() + TIME
    state = store.account(merchant)
    if state is None:
        raise AccountNotFound("account")
    exponent, aside = state.exponent(_dependencies.config), dict[str, str]()

    def put_aside(key: Row, reason: str) -> None:
        sweeper.warn(key, reason)
        aside[key["sk"]] = reason

    minutes, left = sweeper.fold_backlog(
        *(store, state, since, begin), is_over=lambda: _dependencies.now() >= until, unreadable=put_aside
    )
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
