"""The second look of a reconciliation: one row that differs from its entries, and these entries.

the row ──▶ its entries ──▶ the row again: the same? ──▶ they agree, or they do not
                                 │
                                 └─ it has moved: look again
"""

import time
from collections import defaultdict
from itertools import chain

from settlement.adapters import journal, pages
from settlement.adapters.dynamodb import Store
from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.model import accounts
from settlement.model.state import MalformedRow
from settlement.reconciliation import Difference, Look, facts, judgement

LOOKS_MAX = 10
"""Most looks at a row that moved during the scan, before it counts as a fault or as unproven."""

_PAUSE_SECONDS = 0.2


def look_again(store: Store, difference: Difference) -> Look:
    """Look at a row and its entries until they agree, or until there were enough looks.

    A look counts if the row is the same before and after its entries were read. A settlement's slots are
    written once, so that nothing moved in between. A balance may have come back to what it was: one look
    that finds a difference is not enough.
    """
    found, is_settlement = Look.MOVING, keys.is_settlement(difference.key)
    for look in range(LOOKS_MAX):
        time.sleep(_PAUSE_SECONDS if look else 0)
        before = store.read(difference.key)
        agrees = before is not None and (
            _settlement_agrees(store, before, difference) if is_settlement else _account_agrees(store, before)
        )
        if store.read(difference.key) != before:
            continue
        if agrees:
            return Look.AGREES
        if is_settlement or before is None:
            return Look.DISAGREES
        found = Look.DISAGREES
    return found


def _settlement_agrees(store: Store, row: Row, difference: Difference) -> bool:
    try:
        told = facts.settlement(row)
    except MalformedRow:
        return False
    read = journal.read(store, row, difference.entries)
    entries, evidence = facts.sound(facts.entry, read.entries), facts.sound(facts.evidence, read.evidence)
    return not judgement.differences(told, list(entries), list(evidence))


def _account_agrees(store: Store, row: Row) -> bool:
    try:
        told = facts.balance(row)
    except MalformedRow:
        return False
    sums: dict[str, int] = defaultdict(int)
    sweeps: list[facts.SweepFacts] = []
    partitions = keys.entry_partitions(told.account)
    for entry in facts.sound(facts.entry, pages.query(store, *partitions)):
        sums[entry.currency] += entry.change
        if release := facts.received(entry):
            sweeps.append(release)
    if accounts.is_merchant(told.account):
        rows = pages.query(store, *(keys.swept(partition, "")["pk"] for partition in partitions))
        sweeps += chain.from_iterable(facts.sound(facts.swept, rows))
    return not judgement.account_differences(told, sums, facts.waiting(sorted(sweeps)))
