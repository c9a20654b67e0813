import time

from handlers import _dependencies, rooms
from settlement.core.ledger.failure_reasons import payee_refusal
from settlement.core.model.accounts import is_merchant
from settlement.core.model.errors import AccountNotFound
from settlement.core.model.settlement import Settlement
from settlement.core.model.stored import MalformedRow

REMEMBERED_SECONDS = 60
"""How long to remember that an account can receive, so a busy payee costs no reads.

An account may be closed meanwhile. Then the release is refused, and compensation returns the held money.
"""

REMEMBERED_MAX = 10_000
"""Maximum remembered payees, about 2 MB. At this number, all are forgotten."""

_remembered: dict[tuple[str, str], int] = {}
"""Maps (payee, currency) to the monotonic second that ends its use."""


def refusal(settlement: Settlement) -> Exception | None:
    """Return the refusal that the later release would get, if any.

    The first read is eventually consistent, which halves its price. A consistent read confirms a refusal,
    because the account may be new. A malformed row's error is returned, too: the settlement may already hold.
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
