"""The payee's account, which is looked at before money is held for it."""

import time

from handlers import _dependencies, rooms
from settlement.core.ledger.failure_reasons import payee_refusal
from settlement.core.model.accounts import is_merchant
from settlement.core.model.errors import AccountNotFound
from settlement.core.model.settlement import Settlement
from settlement.core.model.stored import MalformedRow

REMEMBERED_SECONDS = 60
"""How long an environment remembers that an account can receive, so that a busy payee costs no reads.

An account neither goes nor changes its currency, but it may be closed. So long, and for as long as the
environment is frozen besides, money is still held for it: then the release refuses it, and compensation gives
the money back.
"""

REMEMBERED_MAX = 10_000
"""The number of payees at which an environment forgets all of them: they take some two megabytes."""

_remembered: dict[tuple[str, str], int] = {}
"""Until when payees are known to receive, by account and currency, in this environment's own time."""


def refusal(settlement: Settlement) -> Exception | None:
    """Return why the payee's account cannot receive the release, before anything is held; None if it can.

    Most accounts were opened long ago, so the first read may lag, at half the price. A refusal is final, so
    a consistent read confirms it: the account may have been opened a moment ago. A malformed row is no
    refusal, but a reason as well: the caller raises it, unless the settlement holds already.
    """
    payee, now = (settlement.payee, settlement.currency), int(time.monotonic())
    if now < _remembered.get(payee, 0):
        return None
    if _reason(settlement, may_lag=True) and (found := _reason(settlement)):
        return found
    if len(_remembered) >= REMEMBERED_MAX:
        _remembered.clear()
    _remembered[payee] = now + REMEMBERED_SECONDS
    return None


def _reason(settlement: Settlement, *, may_lag: bool = False) -> Exception | None:
    if is_merchant(settlement.payee) and not rooms.credits_later():  # no sweep would reach the release
        return AccountNotFound("payee")
    try:
        state = _dependencies.store.account(settlement.payee, may_lag=may_lag)
    except MalformedRow as malformed:
        return malformed
    return payee_refusal(settlement.currency, state)
