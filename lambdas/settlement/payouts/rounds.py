"""The work of one minute: lines to book, payouts to look at, and cases whose decision may be approved."""

from contextlib import suppress
from datetime import datetime, timedelta
from itertools import chain
from operator import itemgetter

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.timestamps import seconds_since, timestamp
from settlement.core.store.dynamodb import Store
from settlement.payouts.payout import State, Status

LISTED_MAX, STUCK_MAX = 2_000, 10_000
"""Maximum rows per run and index partition: more than a run can process, or people can decide."""

TURN = 200
"""Maximum cases, or refused lines, that one run looks at. More can wait, as persons take much longer."""

MINUTE_SECONDS = 60

UNKNOWN_LONG = timedelta(hours=1)


def lines(store: Store, now: datetime) -> list[Row]:
    """Index keys of the lines to book, and of refused lines to try again."""
    new = store.listed(keys.PAYOUT_LINES, up_to=keys.END_OF_TIME, limit=LISTED_MAX)
    return [*new, *turn(faults(store), now)]


def faults(store: Store) -> list[Row]:
    return _stuck(store, keys.PAYOUT_LINE_FAULTS)


def turn(listed: list[Row], now: datetime) -> list[Row]:
    """Return this minute's part of a list. Other minutes return the other parts."""
    if len(listed) <= TURN:
        return listed
    first = int(now.timestamp()) // MINUTE_SECONDS * TURN % len(listed)
    return [*listed, *listed][first : first + TURN]


def due(store: Store, now: datetime) -> list[Row]:
    """Index keys of the payouts whose look is due, the longest overdue first across all partitions."""
    partitions = map(keys.payouts_partition, range(keys.PAYOUT_SHARDS))
    found = (store.listed(one, up_to=timestamp(now), limit=LISTED_MAX) for one in partitions)
    return sorted(chain.from_iterable(found), key=itemgetter("gsi1sk"))


def cases(store: Store) -> list[Row]:
    return _stuck(store, keys.PAYOUT_CASES)


def late_seconds(listed: list[Row], now: datetime) -> int:
    """How late the oldest due look is."""
    oldest = 0
    for one in listed:
        with suppress(ValueError, TypeError):  # a forged entry may have any text, or a time without offset
            oldest = max(oldest, seconds_since(one["gsi1sk"], now))
    return oldest


def is_long_unknown(state: State, now: datetime) -> bool:
    since = state.first_sent_at
    return state.status is Status.UNKNOWN and since is not None and since < timestamp(now - UNKNOWN_LONG)


def _stuck(store: Store, partition: str) -> list[Row]:
    return list(store.listed(partition, up_to=keys.END_OF_TIME, limit=STUCK_MAX))
