"""The payee's account, which is looked at before money is held for it."""

import time

from handlers import _dependencies
from settlement.ledger.failure_reasons import payee_refusal
from settlement.model.errors import SettlementError
from settlement.model.settlement import Settlement

REMEMBERED_SECONDS = 60
"""How long an environment remembers that an account can receive, so that a busy payee costs no reads.

An account neither goes nor changes its currency, but it may be closed. This is the longest that money is
still held for it then: the release refuses it, and compensation gives the money back.
"""

REMEMBERED_MAX = 10_000
"""The number of payees at which an environment forgets all of them: they take some two megabytes."""

_remembered: dict[tuple[str, str], int] = {}
"""Until when payees are known to receive, by account and currency, in this environment's own time."""


def refusal(settlement: Settlement) -> SettlementError | None:
    """Return why the payee's account cannot receive the release, before anything is held; None if it can.

    Most accounts were opened long ago, so the first read may lag, at half the price. A refusal is final, so
    a consistent read confirms it: the account may have been opened a moment ago.
    """
    payee, store = (settlement.payee, settlement.currency), _dependencies.store
    now = int(time.monotonic())
    if now < _remembered.get(payee, 0):
        return None
    if payee_refusal(settlement.currency, store.account(settlement.payee, may_lag=True)):
        found = payee_refusal(settlement.currency, store.account(settlement.payee))
        if found:
            return found
    if len(_remembered) >= REMEMBERED_MAX:
        _remembered.clear()
    _remembered[payee] = now + REMEMBERED_SECONDS
    return None
