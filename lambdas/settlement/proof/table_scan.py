from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import money
from settlement.core.model.errors import StoreUnavailable
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.proof import (
    CutOff,
    Difference,
    Findings,
    Look,
    Retention,
    Stage,
    Watch,
    describe,
    pages,
    reconcile,
    unwatched,
)
from settlement.proof.pages import WHOLE, Part
from settlement.proof.second_look import look_again
from settlement.proof.watch import LOOKING, TooLong, looking_again
from settlement.proof.watched_store import WatchedStore
from settlement.signing.signature import RowKeys

LISTED_AHEAD_MAX = timedelta(hours=1)
"""How far ahead the index may list a settlement outside a review.

It covers recovery's longest pause, and clock skew.
"""

REVIEW_LISTED_AHEAD_MAX = timedelta(days=30) + LISTED_AHEAD_MAX
"""How far ahead the index may list a review of at most 30 days."""

PAYOUT_LISTED_AHEAD_MAX = {
    **dict.fromkeys(("RESERVED", "SENDING", "UNKNOWN", "ACCEPTED"), timedelta(hours=6)),
    "PAID": timedelta(days=1),
    "RETURNED": timedelta(days=10),
}
"""Longest pause between two looks at a payout, by status."""

_SKEW = timedelta(hours=1)


def until(reserved_ms: int, left_ms: Callable[[], int]) -> Watch:
    """A watch that ends a reconciliation when less than `reserved_ms` is left.

    All second looks share half of the unreserved time left when they begin. One look may take a quarter of
    the remaining share. So a busy account leaves time for others.
    """
    for_looks = began = latest = -1

    def watch(phase: str, done: int) -> None:
        nonlocal for_looks, began, latest
        left = left_ms()
        if left < reserved_ms:
            raise CutOff(f"no time is left while {phase}, after {done}")
        if not phase.startswith(LOOKING):
            return
        if done == 0:
            for_looks = (left - reserved_ms) // 2 if began < 0 else for_looks - (began - latest)
            began = left
        latest = left
        if began - left > for_looks // 4:
            raise TooLong(f"it takes too long, {phase}, after {done}")

    return watch


def check(
    store: Store,
    watch: Watch = unwatched,
    *,
    currencies: Collection[str] | None = None,
    row_keys: RowKeys | None = None,
    shortest_retention_days: int | None = None,
) -> Findings:
    """Prove the table. If DynamoDB stops answering, the table is unproven.

    A currency outside `currencies` is a fault. So is a signature that no key in `row_keys` made. None
    disables either check. A settlement listed too far ahead is not a fault.
    """
    began = datetime.now(UTC)
    with closing(rows(store)) as every_row:  # otherwise a cut-off scan keeps reading
        look_at = partial(look, store, began=began, watch=watch)
        return reconcile(
            every_row, look_at, watch, stage_at(began, currencies, row_keys, shortest_retention_days)
        )


def stage_at(
    began: datetime,
    currencies: Collection[str] | None,
    row_keys: RowKeys | None,
    shortest_retention_days: int | None,
) -> Stage:
    limits = (LISTED_AHEAD_MAX, REVIEW_LISTED_AHEAD_MAX)
    listed_until, reviews_until = (timestamp(began + limit) for limit in limits)
    of_payouts = {
        status: timestamp(began + limit + _SKEW) for status, limit in PAYOUT_LISTED_AHEAD_MAX.items()
    }
    retention = Retention.at(began, shortest_retention_days)
    return Stage(currencies, row_keys, listed_until, reviews_until, of_payouts, retention)


def rows(store: Store, part: Part = WHOLE) -> Generator[Row, None, None]:
    """Yield whole rows: a signature covers all attributes. Raises CutOff."""
    try:
        yield from pages.scan(store, part)
    except StoreUnavailable as failed:
        raise CutOff(str(failed)) from failed


def look(store: Store, difference: Difference, began: datetime, watch: Watch = unwatched) -> Look:
    """Take a second look at a difference. Raises CutOff."""
    phase = looking_again(keys.subject(difference.key)[0])
    try:
        return look_again(WatchedStore(store, phase, watch), difference, began)
    except StoreUnavailable as failed:
        raise CutOff(str(failed)) from failed


def rendered(findings: Findings, currencies: Mapping[str, int], *, signatures: bool) -> dict[str, Any]:
    """Describe findings. `currencies` maps codes to exponents. `signatures`: whether these were judged."""

    def render(amount: int, currency: str) -> str:
        if currency not in currencies:
            return f"{amount} minor units"
        return money.render(amount, currencies[currency])

    return {**describe(findings, render), "signatures": signatures}


def proof(store: Store, currencies: Mapping[str, int], row_keys: RowKeys | None = None) -> dict[str, Any]:
    findings = check(store, currencies=currencies, row_keys=row_keys)
    return rendered(findings, currencies, signatures=row_keys is not None)
