"""The second look of a reconciliation: one row that differs from what explains it, and the rows that do.

the row ──▶ what explains it ──▶ the row again: the same? ──▶ they agree, or they do not
                                      │
                                      └─ it has moved: look again
"""

import time
from collections.abc import Collection
from datetime import datetime, timedelta

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.proof import (
    Difference,
    Look,
    journal,
    judgement,
    on_record,
    ordered,
    rows,
    settlement_row,
    statement,
)
from settlement.proof.facts import BalanceFacts, Waiting
from settlement.proof.retention import Old
from settlement.proof.watched_store import WatchedStore

LOOKS_MAX = 10
"""Most looks at a row that moved during each, before it counts as unproven."""

TAILS: tuple[int | None, ...] = (200, 2_000, None)
"""The rows of a statement that are read again with the account's row, from one reading of it to the next. At
50 moves a second the first is 4 seconds, longer than a function takes from its clock to its commit.
"""

TRIES_MAX = 100
"""Most readings of one tail until two are equal."""

_PAUSE_SECONDS = 0.2

_CLOCKS, _LONGEST = timedelta(hours=1), timedelta(days=1)
"""The most by which the clock that dates an order is behind the one that dates the scan."""


def look_again(store: WatchedStore, difference: Difference, began: datetime) -> Look:
    """Look at a row and what explains it until they are known at one instant, or there were enough looks.

    `began` is the time at which the scan began that found the difference. Raises CutOff if the store's watch
    does.
    """
    try:
        if keys.is_settlement(difference.key):
            return _settlement(store, difference)
        found = _cases(store, difference)
        if found is Look.AGREES:
            found = _orders(store, difference, began)
        return _account(store, difference) if found is Look.AGREES else found
    except ValueError:  # a row that cannot be read, which the scan has named
        return Look.DISAGREES


def _settlement(store: Store, difference: Difference) -> Look:
    """Look at a settlement. Its slots are written once, so an unchanged row has not moved in between.

    A proposal moves without it: it is unchanged, too.
    """
    key = keys.subject(difference.key)[1]
    for look in range(LOOKS_MAX):
        time.sleep(_PAUSE_SECONDS if look else 0)
        before, proposal = store.read(difference.key), store.read(keys.proposal(key))
        if before is None:
            return Look.DISAGREES
        told = settlement_row.settlement(before)
        read = journal.read(store, before, map(judgement.address, difference.entries))
        if store.read(difference.key) != before or store.read(keys.proposal(key)) != proposal:
            continue
        entries = list(rows.sound(rows.entry, read.entries))
        evidence = list(rows.sound(rows.evidence, read.evidence))
        entries += judgement.expired(told, entries, evidence, difference.retention)
        is_kept = {*difference.entries} <= {*entries} and {*difference.evidence} <= {*evidence}
        found = judgement.differences(told, entries, evidence)
        found += on_record.of_others(evidence, difference.events, difference.waiting)
        found += on_record.of_proposals(evidence, rows.proposal(proposal) if proposal else None)
        return Look.DISAGREES if found or not is_kept else Look.of(told)
    return Look.MOVING


def _account(store: Store, difference: Difference) -> Look:
    """Look at a balance and its statement, with a longer tail each time that they differ.

    A difference is a fault if nothing was added behind the tail meanwhile: then all entries are known. Those
    that may be gone by now are as the scan has added them up.
    """
    account, old = keys.subject(difference.key)[1], difference.old
    for length in TAILS:
        read = statement.read(store, account, length, difference.retention)
        first = read.tail(store)
        for _ in range(TRIES_MAX):
            row = store.read(difference.key)
            last = read.tail(store)
            if first.is_still(last):
                break
            first = last
        else:
            continue
        if row is None:
            return Look.DISAGREES
        told, total = rows.balance(row), read.before.plus(last)
        waiting = _with_old(total.waiting(account), old)
        total.changes.update(old.sums)
        if not _differs(told, total, waiting):
            return Look.of(told, waiting.unswept)
        if read.is_complete(store):
            return Look.DISAGREES
    return Look.MOVING


def _with_old(waiting: Waiting, old: Old) -> Waiting:
    return Waiting(waiting.unswept + old.unswept, waiting.above or old.above)


def _differs(row: BalanceFacts, total: statement.Tally, waiting: Waiting) -> bool:
    return bool(judgement.account_differences(row._replace(limbo_cases=0), total.changes, waiting))


def _cases(store: WatchedStore, difference: Difference) -> Look:
    """Look at an account's count and the open cases that block it, until both are known at one instant.

    The scan has met the cases that were open then, and the index lists those that have opened since. Their
    rows decide: they are the same before the count is read and after it, and one that comes back into LIMBO
    has one more case. The index may be behind, so a count above the cases is looked at again to the end; a
    count below them is a fault at once, because a case that is not known can only add to them.
    """
    account, excess = keys.subject(difference.key)[1], 0
    if not difference.cases and _counted(store, difference) == 0:
        return Look.AGREES
    for look in range(LOOKS_MAX):
        time.sleep(_PAUSE_SECONDS if look else 0)
        named = {*difference.cases, *store.open_cases()}
        before = _of_party(_settlements(store, named), account)
        counted = _counted(store, difference)
        if counted is None:
            return Look.DISAGREES
        after = _settlements(store, before.keys())
        since = _settlements(store, {*store.open_cases()} - named)
        if after != before or any(_blocks(row, account) for row in since.values()):
            continue
        blocking = sum(_blocks(row, account) for row in before.values())
        if counted < blocking:
            return Look.DISAGREES
        if counted == blocking:
            return Look.AGREES
        excess += 1
    return Look.DISAGREES if excess == LOOKS_MAX else Look.MOVING


def _counted(store: Store, difference: Difference) -> int | None:
    """Return how many open cases the account's row counts; None if there is no row."""
    row = store.read(difference.key)
    return rows.balance(row).limbo_cases if row else None


def _orders(store: WatchedStore, difference: Difference, began: datetime) -> Look:
    """Look at an account's orders. Orders and entries never change: what the scan has met is there.

    An order is found by its own key alone, and the row has that of the last one. So an account that was given
    more than one since the scan began is unproven if the scan did not meet them; the next scan does.
    """
    row = store.read(difference.key)
    if row is None:
        return Look.DISAGREES
    told, orders = rows.balance(row), {one.key: one for one in difference.orders}
    named = {told.last_order, *(entry.key for entry in difference.entries)} - orders.keys()
    found = store.rows([keys.order(key) for key in sorted(named)])
    orders |= {one.key: one for one in rows.sound(rows.order, found) if one.account == told.account}
    moves = [ordered.address_of(one) for one in orders.values() if ordered.entry_of(one)]
    entries = {*difference.entries, *rows.sound(rows.entry, store.rows(moves))}
    if list(ordered.money_differences(orders.values(), entries)):
        return Look.DISAGREES
    if not list(ordered.state_differences(told, orders.values())):
        return Look.AGREES
    times = [told.opened_at, *(one.posted_at for one in orders.values() if one.key == told.last_order)]
    first, last = timestamp(began - _CLOCKS), timestamp(began + _LONGEST)
    is_young = any(at and first <= at <= last for at in times)
    return Look.MOVING if is_young else Look.DISAGREES


def _settlements(store: WatchedStore, named: Collection[str]) -> dict[str, Row]:
    """Return the rows that there are of the settlements of these keys, read consistently."""
    found = store.rows([keys.settlement(key) for key in sorted(named)])
    return {keys.subject(row)[1]: row for row in found}


def _of_party(found: dict[str, Row], account: str) -> dict[str, Row]:
    return {key: row for key, row in found.items() if account in (row.get("payer"), row.get("payee"))}


def _blocks(row: Row, account: str) -> bool:
    return settlement_row.blocked_account(row, settlement_row.settlement(row)) == account
