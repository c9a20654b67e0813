from collections.abc import Callable, Iterator
from itertools import groupby

from settlement.core import telemetry
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied
from settlement.core.model.errors import AccountNotFound, StoreUnavailable
from settlement.core.model.state import AccountState, SettlementState
from settlement.core.model.stored import MalformedRow
from settlement.core.store.dynamodb import Store
from settlement.merchants import sweep, sweeps
from settlement.merchants.sweep import Span, Unreadable

TRIES_MAX = 6
"""Maximum tries. Each failed try means that another sweeper made progress."""

_LAST = "~"
"""Sorts after every timestamp."""


def warn(key: Row, reason: str) -> None:
    telemetry.logger.warning("entry left out of a sweep", key=key["sk"], reason=reason)


def fold(store: Store, span: Span, unreadable: Unreadable = warn) -> int:
    """Fold a minute of a partition. Return the amount added, in minor units.

    Afterwards the balance includes the span's earlier releases. A later sweep adds unreadable ones, once they
    are mended. Raises StoreUnavailable and the account's refusals. Raises ValueError if the row of the minute
    or account is unreadable.
    """
    account = store.account(span.merchant)
    if account is None:
        raise AccountNotFound("payee")
    spoilt: set[str] = set()

    def note(key: Row, reason: str) -> None:
        spoilt.add(sweep.minute_and_second(key["sk"])[1])
        unreadable(key, reason)

    for _ in range(TRIES_MAX):
        found = store.read(span.swept)  # first: the entries then include all folded ones
        sweep.ensure_readable(found)
        rows = store.entries(span.partition, *span.bounds, unreadable=note)
        releases = list(sweep.readable(rows, account.currency, note))
        gains = sweep.unswept(found, releases)
        for entry in sweep.doubtful(found, releases, spoilt):
            unreadable(entry, "its second has an entry that cannot be read")
        if not gains:
            return 0
        try:
            store.transact(sweep.fold(span, found, gains, account.currency))
        except AlreadyApplied:
            continue
        telemetry.count("MerchantSwept")
        return sum(gains.values())
    raise StoreUnavailable(f"sweep: other sweepers were quicker {TRIES_MAX} times")


def before_refund(store: Store, state: SettlementState) -> None:
    if span := sweeps.before_refund(state):
        fold(store, span)


def fold_backlog(
    store: Store,
    merchant: AccountState,
    since: str,
    begin: Span | None,
    *,
    is_over: Callable[[], bool],
    unreadable: Unreadable,
) -> tuple[dict[str, int], Span | None]:
    """Fold until time is over. Return the amounts by minute, and the next call's span (None at the end).

    Each call handles at least one span, so repeated calls end. Unreadable rows go to `unreadable` and block
    no other minute. Raises StoreUnavailable and the account's refusals.
    """
    folded: dict[str, int] = {}
    is_first = True
    for span, is_waiting in _spans(store, merchant, since, begin, unreadable):
        if not is_first and is_over():
            return folded, span
        try:
            if is_waiting and (gained := fold(store, span, unreadable)):
                folded[span.minute] = folded.get(span.minute, 0) + gained
        except MalformedRow as malformed:
            unreadable(span.swept, str(malformed))
        is_first = False
    return folded, None


def _spans(
    store: Store, merchant: AccountState, since: str, begin: Span | None, unreadable: Unreadable
) -> Iterator[tuple[Span, bool]]:
    """Yield each minute with entries, by partition, and whether a release is unswept.

    Rows are read page by page, because a history may span years. A minute's row and entries may be read in
    any order, because only a release folded meanwhile can be missed.
    """
    partitions = keys.entry_partitions(merchant.account)
    for partition in partitions[partitions.index(begin.partition) if begin else 0 :]:
        first = begin.minute if begin and partition == begin.partition else since
        rows = store.entries(keys.swept(partition, "")["pk"], first, _LAST, unreadable=_named_by_fold)
        found = next(rows, None)
        entries = store.entries(partition, first, _LAST, unreadable=unreadable)
        for minute, of_minute in groupby(entries, key=lambda entry: str(entry["sk"])[: keys.MINUTE]):
            while found and found["sk"] < minute:
                found = next(rows, None)
            swept = found if found and found["sk"] == minute else None
            releases = sweep.readable(of_minute, merchant.currency, unreadable)
            yield Span(partition, minute), _waits(swept, releases)


def _waits(swept: Row | None, releases: Iterator[Row]) -> bool:
    """Whether a release is unswept. True for an unreadable row, so that `fold` reports it."""
    try:
        sweep.ensure_readable(swept)
    except MalformedRow:
        return True
    return bool(sweep.unswept(swept, releases))


def _named_by_fold(key: Row, reason: str) -> None:
    """Skip an unreadable row. `fold` reports it."""
