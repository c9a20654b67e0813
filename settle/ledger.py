"""Reading the table for the reconciliation."""

import time
from collections.abc import Iterator
from typing import Any

from settle import accounts, reconcile
from settle.stack import Stack
from settlement.rows import Row
from settlement.store import from_wire

LOOKS_MAX = 10
"""How often a row that was seen in motion is looked at before it counts as a fault."""

_PAUSE_SECONDS = 0.2


def check(stack: Stack) -> reconcile.Findings:
    """Reconcile the whole table of a stack, which may be at work."""
    return reconcile.reconcile(_every_row(stack), lambda row: _agrees_now(stack, row))


def _every_row(stack: Stack) -> Iterator[Row]:
    pages = stack.client("dynamodb").get_paginator("scan")
    for page in pages.paginate(TableName=stack.outputs["TableName"], ConsistentRead=True):
        for item in page["Items"]:
            yield from_wire(item)


def _agrees_now(stack: Stack, row: Row) -> bool:
    """Whether a row, looked at by itself, agrees with its entries at one of several looks.

    A look counts if the row is the same before and after its entries were read: nothing moved between.
    """
    key = {"pk": row["pk"], "sk": row["sk"]}
    for look in range(LOOKS_MAX):
        time.sleep(_PAUSE_SECONDS if look else 0)
        before = stack.store.read(key)
        if before is None:
            return False
        posted, steps = _entries_of(stack, before)
        if reconcile.agrees(before, posted, steps) and stack.store.read(key) == before:
            return True
    return False


def _entries_of(stack: Stack, row: Row) -> tuple[int, set[str]]:
    """The sum of a row's entries in minor units, and the steps that posted them."""
    account, _ = reconcile.balance_of(row)
    if row["sk"] != "SETTLEMENT":
        return sum(accounts.change(entry) for entry in accounts.indexed(stack, account)), set()
    pages: Any = (
        stack.client("dynamodb")
        .get_paginator("query")
        .paginate(
            TableName=stack.outputs["TableName"],
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": row["pk"]}},
            ConsistentRead=True,
        )
    )
    entries = [entry for page in pages for item in page["Items"] if "step" in (entry := from_wire(item))]
    moved = (change for entry in entries for name, change in reconcile.changes(entry) if name == account)
    return sum(moved), {entry["step"] for entry in entries}
