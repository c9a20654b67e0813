from settlement.core.ledger.transaction import Write
from settlement.merchants import sweep
from settlement.merchants.sweep import Span

WRITES: dict[str, tuple[Write, ...]] = dict.fromkeys(
    ("SweepMerchants", "ReclaimFunds", "TakeOrder"),
    sweep.fold(Span("ENTRIES#merchant.shop#3", "2026-11-22T06:04"), None, {"57": 4_772}, "EUR"),
)
"""Writes of a sweep, by each function that can make one."""
