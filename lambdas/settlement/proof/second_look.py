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
    payout_look,
    rows,
    settlement_row,
    statement,
)
from settlement.proof.facts import BalanceFacts, MatchFacts, Waiting
from settlement.proof.retention import Old
from settlement.proof.watched_store import WatchedStore

LOOKS_MAX = 10
"""Maximum readings of a moving row. After them, the row is unproven."""

TAILS: tuple[int | None, ...] = (200, 2_000, None)
"""Rows in the statement's tail, in successive readings. None: all rows.

At 50 moves a second, 200 rows span 4 seconds, more than a commit takes.
"""

TRIES_MAX = 100
"""Maximum readings of a tail, until two are equal."""

_PAUSE_SECONDS = 0.2

_CLOCKS, _LONGEST = timedelta(hours=1), timedelta(days=1)
"""Maximum lag of an order's clock behind the scan's clock, and maximum duration of a scan."""


def look_again(store: WatchedStore, difference: Difference, began: datetime) -> Look:
    """Look until the row and the rows that explain it are known at one instant.

    `began` is the start of the scan.
    """
    try:
        if difference.scanned:
            return payout_look.look(store, difference)
        if keys.is_settlement(difference.key):
            return _settlement(store, difference)
        found = _cases(store, difference)
        if found is Look.AGREES:
            found = _orders(store, difference, began)
        return _account(store, difference) if found is Look.AGREES else found
    except ValueError:  # an unreadable row, which the scan has reported
        return Look.DISAGREES


def _settlement(store: Store, difference: Difference) -> Look:
    """Look at a settlement. Slots are written once, so an unchanged row has not moved.

    The proposal's row moves separately, and must be unchanged, too.
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
    """Look at an account. Each difference leads to a longer tail of the statement.

    If nothing was added before the tail, all entries are known, and the difference is a fault. Entries that
    may have expired keep the scan's sums.
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
    """Compare the count of open cases with the settlements' rows.

    The scan has the older cases, the index the newer ones. The settlements' rows must be equal before and
    after the count is read. A settlement that returned to LIMBO differs: its case number is higher.

    A count above the cases is a fault only after all looks, because the index may lag. A count below is a
    fault at once, because unknown cases would only add.
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
    row = store.read(difference.key)
    return rows.balance(row).limbo_cases if row else None


def _orders(store: WatchedStore, difference: Difference, began: datetime) -> Look:
    """Compare an account's orders. Orders and entries never change, so the scan's copies remain valid.

    An order is found only by its key, and the account's row names only the last order. So several new orders
    may leave the account unproven until the next scan.
    """
    row = store.read(difference.key)
    if row is None:
        return Look.DISAGREES
    told, orders = rows.balance(row), {one.key: one for one in difference.orders}
    named = {told.last_order, *(entry.key for entry in difference.entries)}
    named = (named | {one.key for one in difference.matches}) - orders.keys()
    found = store.rows([keys.order(key) for key in sorted(named)])
    orders |= {one.key: one for one in rows.sound(rows.order, found) if one.account == told.account}
    moves = [ordered.address_of(one) for one in orders.values() if ordered.entry_of(one)]
    entries = {*difference.entries, *rows.sound(rows.entry, store.rows(moves))}
    if list(ordered.money_differences(orders.values(), entries)):
        return Look.DISAGREES
    if list(ordered.match_differences(orders.values(), _matches(store, difference))):
        return Look.DISAGREES
    if not list(ordered.state_differences(told, orders.values())):
        return Look.AGREES
    times = [told.opened_at, *(one.posted_at for one in orders.values() if one.key == told.last_order)]
    first, last = timestamp(began - _CLOCKS), timestamp(began + _LONGEST)
    is_young = any(at and first <= at <= last for at in times)
    return Look.MOVING if is_young else Look.DISAGREES


def _matches(store: WatchedStore, difference: Difference) -> set[MatchFacts]:
    """Read both rows of each match. One transaction puts both, but the scan may have met only one row."""
    named = [*difference.matches]
    lines, orders = {one.line for one in named}, {one.key for one in named}
    found = store.rows([*map(keys.bank_match, sorted(lines)), *map(keys.banked, sorted(orders))])
    return {*named, *rows.sound(rows.match, found)}


def _settlements(store: WatchedStore, named: Collection[str]) -> dict[str, Row]:
    found = store.rows([keys.settlement(key) for key in sorted(named)])
    return {keys.subject(row)[1]: row for row in found}


def _of_party(found: dict[str, Row], account: str) -> dict[str, Row]:
    return {key: row for key, row in found.items() if account in (row.get("payer"), row.get("payee"))}


def _blocks(row: Row, account: str) -> bool:
    return settlement_row.blocked_account(row, settlement_row.settlement(row)) == account
