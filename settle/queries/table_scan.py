"""The scan of the whole table for the reconciliation, and the second look at a row."""

import time
from collections.abc import Iterator
from typing import Any

from settle import reconciliation
from settle.queries import settlement, statement
from settle.reconciliation import Findings, Look
from settle.stack import Stack
from settlement.adapters.dynamodb import from_wire
from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.model import money

LOOKS_MAX = 10
"""Most looks at a row that moved during the scan, before it counts as a fault or as unproven."""

_PAUSE_SECONDS = 0.2


def check(stack: Stack) -> Findings:
    """Reconcile the whole table of a stack, which may be at work."""
    return reconciliation.reconcile(_every_row(stack), lambda key: _look_again(stack, key))


def proof(stack: Stack) -> dict[str, Any]:
    """Reconcile the whole table, and return the findings with amounts as decimal strings."""

    def render(amount: int, currency: str) -> str:
        return money.render(amount, stack.config.currencies[currency])

    return reconciliation.describe(check(stack), render)


def _every_row(stack: Stack) -> Iterator[Row]:
    pages = stack.client("dynamodb").get_paginator("scan")
    for page in pages.paginate(TableName=stack.outputs["TableName"], ConsistentRead=True):
        for item in page["Items"]:
            yield from_wire(item)


def _look_again(stack: Stack, key: Row) -> Look:
    """Look at a row and its entries until they agree, or until there were enough looks.

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
    account, _ = reconciliation.balance_of(row)
    if keys.is_settlement(row):
        moved = [
            change for entry in entries for name, change in reconciliation.changes(entry) if name == account
        ]
        steps = {entry["step"]: entry.get("amount", 0) for entry in entries}
    else:
        moved, steps = [statement.change(entry) for entry in entries], {}
    same_currency = all(entry.get("currency", row["currency"]) == row["currency"] for entry in entries)
    return same_currency and reconciliation.agrees(row, sum(moved), steps)


def _entries_of(stack: Stack, row: Row) -> list[Row]:
    """Return a customer's entries as the index lists them, or a settlement's from the table itself."""
    _, name = keys.subject(row)
    return settlement.entries_of(stack, name) if keys.is_settlement(row) else statement.indexed(stack, name)
