"""Reading the table for the reconciliation."""

import time
from collections.abc import Iterator

from settle import accounts, journal, reconcile
from settle.reconcile import Look
from settle.stack import Stack
from settlement import rows
from settlement.rows import Row
from settlement.store import from_wire

LOOKS_MAX = 10
"""How often a row that was seen in motion is looked at before it counts as a fault, or as unproven."""

_PAUSE_SECONDS = 0.2


def check(stack: Stack) -> reconcile.Findings:
    """Reconcile the whole table of a stack, which may be at work."""
    return reconcile.reconcile(_every_row(stack), lambda key: _look_again(stack, key))


def _every_row(stack: Stack) -> Iterator[Row]:
    pages = stack.client("dynamodb").get_paginator("scan")
    for page in pages.paginate(TableName=stack.outputs["TableName"], ConsistentRead=True):
        for item in page["Items"]:
            yield from_wire(item)


def _look_again(stack: Stack, key: Row) -> Look:
    """Look at a row and its entries until they agree, or until there have been enough looks.

    A look counts if the row is the same before and after its entries were read: nothing moved between.
    The index may lag, so a look that finds a difference is followed by others.
    """
    found = Look.MOVING
    for look in range(LOOKS_MAX):
        time.sleep(_PAUSE_SECONDS if look else 0)
        before = stack.store.read(key)
        if before is None:
            found = Look.DISAGREES
            continue
        entries = _entries_of(stack, before)
        if stack.store.read(key) != before:
            continue
        if _agree(before, entries):
            return Look.AGREES
        found = Look.DISAGREES
    return found


def _agree(row: Row, entries: list[Row]) -> bool:
    account, _ = reconcile.balance_of(row)
    if rows.is_settlement(row):
        moved = [change for entry in entries for name, change in reconcile.changes(entry) if name == account]
        steps = {entry["step"]: entry.get("amount", 0) for entry in entries}
    else:
        moved, steps = [accounts.change(entry) for entry in entries], {}
    same_currency = all(entry.get("currency", row["currency"]) == row["currency"] for entry in entries)
    return same_currency and reconcile.agrees(row, sum(moved), steps)


def _entries_of(stack: Stack, row: Row) -> list[Row]:
    """A customer's entries as the index lists them, or a settlement's from the table itself."""
    _, name = rows.subject(row)
    return journal.entries_of(stack, name) if rows.is_settlement(row) else accounts.indexed(stack, name)
