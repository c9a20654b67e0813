"""What the table has on one settlement: its row, its entries, and how it came to where it is."""

from typing import Any

from settle.failures import CommandFailed, Exit
from settle.stack import Stack
from settlement import money, outcome, rows
from settlement.rows import Row
from settlement.status import REVERSIBLE, Status, Step
from settlement.store import from_wire

_NOTES = ("decision", "reason", "by", "error", "cause", "reference", "provider")
"""Attributes of an entry that tell why, in the order in which they are shown."""

_DECISIVE = {"SETTLED": ("release", "fee"), "COMPENSATED": ("hold", "compensate:hold")}
"""The entries that prove a finished settlement; of any other, all that moved money count."""


def row_of(stack: Stack, key: str) -> Row:
    """The settlement's row. Raises CommandFailed where nobody has claimed the key."""
    row = stack.store.read(rows.settlement_key(key))
    if row is None:
        raise CommandFailed(Exit.NOT_FOUND, f"key: nobody has claimed {key} in {stack.name}")
    return row


def entries_of(stack: Stack, key: str) -> list[Row]:
    """The settlement's journal entries, oldest first, read consistently."""
    pages: Any = stack.client("dynamodb").get_paginator("query")
    answer = pages.paginate(
        TableName=stack.outputs["TableName"],
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": rows.settlement_key(key)["pk"]}},
        ConsistentRead=True,
    )
    found = [from_wire(item) for page in answer for item in page["Items"]]
    entries = [row for row in found if not rows.is_settlement(row)]
    in_order = [*Step, *(step.reversal for step in REVERSIBLE)]  # decides within a millisecond
    entries.sort(key=lambda row: in_order.index(row["step"]) if row["step"] in in_order else 0)
    return sorted(entries, key=lambda row: str(row.get("posted_at")))


def describe(stack: Stack, key: str) -> dict[str, Any]:
    """The outcome as the machines report it, with the entries, and whether it is safe to retry."""
    row = row_of(stack, key)
    timeline = _timeline(stack, row)
    result = outcome.of_settlement(key, row, stack.terms, replayed=False)
    in_review = row["status"] == Status.PROCESSING and "review" in row
    review = {"reference": row["review"], "until": row["deadline_at"]} if in_review else None
    return result | {"review": review, "entries": timeline, "retry": _advice(result, timeline)}


def _timeline(stack: Stack, row: Row) -> list[dict[str, str]]:
    exponent, key, held = stack.terms.currencies[row["currency"]], rows.subject(row)[1], 0
    lines = []
    for entry in entries_of(stack, key):
        line = {"posted_at": entry["posted_at"], "step": entry["step"], "moved": "", "amount": ""}
        if "amount" in entry:
            incoming = entry["credit"] == rows.escrow(key)
            held += entry["amount"] if incoming else -entry["amount"]
            line["moved"] = f"{entry['debit']} → escrow" if incoming else f"escrow → {entry['credit']}"
            line["amount"] = money.render(entry["amount"], exponent)
        line["escrow"] = money.render(held, exponent)
        line["note"] = "; ".join(f"{name}: {entry[name]}" for name in _NOTES if name in entry)
        lines.append(line)
    return lines


def _advice(result: dict[str, Any], timeline: list[dict[str, str]]) -> dict[str, Any]:
    """Whether it is safe to send the payment again, under the same key and under a new one."""
    status = result["status"]
    held = f"the escrow has {result['escrow']} {result['currency']}"
    new_key_safe, why = {
        "PROCESSING": (False, f"it may still go through: {held}"),
        "SETTLED": (False, "the payee has been paid, and would be paid twice"),
        "REJECTED": (True, "nothing was ever held"),
        "COMPENSATING": (False, f"it is being reversed, but is not yet: {held}"),
        "COMPENSATED": (True, "the payer has everything back"),
        "LIMBO": (False, f"a person has yet to decide: {held}; see `settle limbo show`"),
    }[status]
    decisive = _DECISIVE.get(status)
    evidence = [
        f"{line['posted_at']} {line['step']}: {line['moved'] or line['note']} {line['amount']}".rstrip()
        for line in timeline
        if (line["step"] in decisive if decisive else line["moved"])
    ]
    return {
        "same_key": f"safe: it answers {status} again and moves nothing",
        "new_key": f"{'safe' if new_key_safe else 'NOT safe'}: {why}",
        "new_key_safe": new_key_safe,
        "evidence": evidence or ["no journal entry moves money"],
    }
