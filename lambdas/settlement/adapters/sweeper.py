"""The sweeper: reads what is folded, then the entries, and folds the difference."""

from settlement.adapters import telemetry
from settlement.adapters.dynamodb import Store
from settlement.ledger import sweep
from settlement.ledger.sweep import Span
from settlement.ledger.transaction import AlreadyApplied
from settlement.model.errors import StoreUnavailable

TRIES_MAX = 6
"""Sweeps of one span while other sweepers are quicker: each of those has folded something."""


def fold(store: Store, span: Span) -> int:
    """Add what no sweep has folded of a span to the merchant's balance; return it, in minor units.

    What had committed before the call is in the balance after it. Raises StoreUnavailable, and the account's
    refusals.
    """
    for _ in range(TRIES_MAX):
        found = store.read(span.swept)  # before the entries: what is folded was among them then
        entries = list(store.entries(span.partition, *span.bounds))
        gains = sweep.unswept(found, entries)
        if not gains:
            return 0
        try:
            store.transact(sweep.fold(span, found, gains, entries[0]["currency"]))
        except AlreadyApplied:
            continue
        telemetry.count("MerchantSwept")
        return sum(gains.values())
    raise StoreUnavailable(f"sweep: other sweepers were quicker {TRIES_MAX} times")
