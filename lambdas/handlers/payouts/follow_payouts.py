"""Follow payouts: book their bank lines, send them, ask the bank about them, and carry out decisions.

Only this function reaches the bank and moves payouts.
"""

from collections.abc import Callable
from typing import Any

from handlers import _dependencies
from handlers.core import _workers
from handlers.payouts import _bank, _payouts
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import InvalidRequest, PayoutFenced
from settlement.core.model.request import KEY
from settlement.core.telemetry import about, count, gauge, logger, observed
from settlement.payouts import rounds, told
from settlement.payouts.follow import Follower
from settlement.payouts.payout import State
from settlement.signing.stage import row_keys

RESERVED_MS = 25_000
"""Minimum time for a look, which may ask the bank for 15 s, and write twice."""

SHOWN_MAX = 64
"""Maximum characters logged of a key or identity, because a forged one may be long."""


@observed("follow")
def handler(event: Any, context: Any) -> dict[str, Any]:
    """Look at the payout `key` and return it. Without a key, do all that is due, and return counts.

    A look raises InvalidRequest, PayoutNotFound, PayoutFenced, MalformedRow, StoreUnavailable, and
    AccountFrozen if it gives money back from suspense. A run isolates each failure.
    """
    if isinstance(event, dict) and "key" in event:
        key = event["key"]
        if not (isinstance(key, str) and KEY.fullmatch(key)):
            raise InvalidRequest(f"key: must be a string that matches ^{KEY.pattern}$")
        about(key)
        return told.of_state(_follower().look(key), _dependencies.config)
    return _run(context)


def _follower() -> Follower:
    accounts = frozenset(_payouts.config()["accounts"])
    return Follower(_dependencies.store, _bank.bank(), _dependencies.now, row_keys.is_proven, accounts)


def _run(context: Any) -> dict[str, int]:
    store, now = _dependencies.store, _dependencies.now()
    _bank.bank()  # an unreadable token fails the run, which the function's alarm reports

    def within(act: Callable[[str], State | None]) -> Callable[[str], State | None]:
        return lambda subject: _isolated(act, subject, context)

    booked = _workers.each(
        within(lambda identity: _follower().book_listed(identity)), map(_key, rounds.lines(store, now))
    )
    due, cases = rounds.due(store, now), rounds.cases(store)
    gauge("PayoutLookLateSeconds", rounds.late_seconds(due, now))
    looked = map(_key, [*due, *rounds.turn(cases, now)])
    looks = _workers.each(within(lambda key: _follower().look(key)), looked)
    states = [state for state in looks if state]
    gauge("PayoutCases", len(rounds.cases(store)))
    gauge("PayoutLineFaults", len(rounds.faults(store)))
    gauge("PayoutUnknown", sum(rounds.is_long_unknown(state, now) for state in states))
    _bank.measure()
    return {
        "lines": sum(state is not None for state in booked),
        "looked": len(states),
        "due": len(due),
        "cases": len(cases),
    }


def _key(listed: Row) -> str:
    return keys.subject(listed)[1]


def _isolated(act: Callable[[str], State | None], subject: str, context: Any) -> State | None:
    if context.get_remaining_time_in_millis() < RESERVED_MS:
        count("PayoutRunCutShort")
        return None
    try:
        return act(subject)
    except PayoutFenced:  # another caller has moved it
        return None
    except Exception as error:
        logger.error("not followed", what=subject[:SHOWN_MAX], error=type(error).__name__)
        count("PayoutNotFollowed")
        return None
