"""What is due at one time: lines to book, payouts to look at, and cases whose decision may be approved."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.timestamps import seconds_since, timestamp
from settlement.core.store.dynamodb import Store
from settlement.payouts.payout import State, Status

LISTED_MAX, CASES_MAX = 2_000, 200
"""Per run and index partition: more than one run can process, and more cases than people have."""

UNKNOWN_LONG = timedelta(hours=1)


def lines(store: Store) -> list[str]:
    """Identities of the lines to book, and of those that were refused."""
    partitions = ((keys.PAYOUT_LINES, LISTED_MAX), (keys.PAYOUT_LINE_FAULTS, CASES_MAX))
    return [keys.subject(one)[1] for name, most in partitions for one in _listed(store, name, most)]


def faults(store: Store) -> int:
    return sum(1 for _ in _listed(store, keys.PAYOUT_LINE_FAULTS, CASES_MAX))


def due(store: Store, now: datetime) -> Iterator[Row]:
    """Index keys of the payouts whose look is due, partition by partition, the latest look last."""
    for shard in range(keys.PAYOUT_SHARDS):
        partition = keys.payouts_partition(shard)
        yield from store.listed(partition, up_to=timestamp(now), limit=LISTED_MAX)


def cases(store: Store) -> list[Row]:
    return list(_listed(store, keys.PAYOUT_CASES, CASES_MAX))


def late_seconds(listed: list[Row], now: datetime) -> int:
    """How late the oldest due look is."""
    oldest = 0
    for one in listed:
        with suppress(ValueError):  # a forged entry may have any text
            oldest = max(oldest, seconds_since(one["gsi1sk"], now))
    return oldest


def is_long_unknown(state: State, now: datetime) -> bool:
    since = state.first_sent_at
    return state.status is Status.UNKNOWN and since is not None and since < timestamp(now - UNKNOWN_LONG)


def _listed(store: Store, partition: str, most: int) -> Iterator[Row]:
    return store.listed(partition, up_to=keys.END_OF_TIME, limit=most)
