"""The layouts that are compared."""

from benchmarks.layouts.settlement_row import SettlementRow
from benchmarks.layouts.slots import Slots

LAYOUTS: tuple[SettlementRow | Slots, ...] = (
    SettlementRow(
        name="before: entries in the settlement's partition, statement index",
        claims_in_hold=False,
        plain_verify=False,
        entries="settlement",
        records_skips=True,
    ),
    SettlementRow(
        name="A verify as two plain writes", claims_in_hold=False, entries="settlement", records_skips=True
    ),
    SettlementRow(
        name="B A, claim in the hold, fee in the release", fee_in_release=True, entries="settlement"
    ),
    SettlementRow(
        name="E B, entries in the account's partition by claim", fee_in_release=True, entries="claimed_at"
    ),
    SettlementRow(
        name="P entries in a partition of their own, by time", entries="posted_at", entry_first=False
    ),
    SettlementRow(name="P, fee in the release", fee_in_release=True, entries="posted_at", entry_first=False),
    SettlementRow(
        name="P, index by claim for `list --since`", entries="posted_at", entry_first=False, lists_since=True
    ),
    Slots(),
)
