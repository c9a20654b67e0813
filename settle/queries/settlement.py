"""One settlement: its state, its journal, its executions, and whether it is safe to retry."""

from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.queries import executions
from settle.stack import Stack
from settlement.adapters.dynamodb import from_wire
from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.model import accounts, money
from settlement.model.state import SettlementState
from settlement.model.status import REVERSIBLE, Status, Step
from settlement.policy import outcome

_NOTES = ("decision", "reason", "by", "error", "cause", "reference", "provider")
"""Attributes of an entry that give its reason, in the order in which they are shown."""

_DECISIVE = {"SETTLED": ("release", "fee"), "COMPENSATED": ("hold", "compensate:hold")}
"""The entries that prove a finished settlement; of any other, all that moved money count."""


def state_of(stack: Stack, key: str) -> SettlementState:
    """Return the state of a settlement. Raises CommandFailed if no request has claimed the key."""
    state = stack.store.settlement(key)
    if state is None:
        raise CommandFailed(Exit.NOT_FOUND, f"key: no request has claimed {key} in {stack.name}")
    return state


def entries_of(stack: Stack, key: str) -> list[Row]:
    """Return the settlement's journal entries, oldest first, read consistently."""
    pages: Any = stack.client("dynamodb").get_paginator("query")
    answer = pages.paginate(
        TableName=stack.outputs["TableName"],
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": keys.settlement(key)["pk"]}},
        ConsistentRead=True,
    )
    found = [from_wire(item) for page in answer for item in page["Items"]]
    entries = [row for row in found if not keys.is_settlement(row)]
    in_order = [*Step, *(step.reversal for step in REVERSIBLE)]  # decides within a millisecond
    entries.sort(key=lambda row: in_order.index(row["step"]) if row["step"] in in_order else 0)
    return sorted(entries, key=lambda row: str(row.get("posted_at")))


def describe(stack: Stack, key: str) -> dict[str, Any]:
    """Return the outcome as the machines report it, and who works on it, the journal, and advice."""
    state = state_of(stack, key)
    journal = _journal(stack, state)
    result = outcome.of_state(state, stack.config, replayed=False)
    return {
        **result,
        "review": _review(state),
        **executions.describe(stack, state),
        "entries": journal,
        "retry": _advice(result, journal),
    }


def _review(state: SettlementState) -> dict[str, str | None] | None:
    if state.status is Status.PROCESSING and state.is_in_review:
        return {"reference": state.review, "until": state.deadline_at}
    return None


def _journal(stack: Stack, state: SettlementState) -> list[dict[str, str]]:
    exponent, key, held = stack.config.currencies[state.settlement.currency], state.key, 0
    lines = []
    for entry in entries_of(stack, key):
        line = {"posted_at": entry["posted_at"], "step": entry["step"], "moved": "", "amount": ""}
        if "amount" in entry:
            incoming = entry["credit"] == accounts.escrow(key)
            held += entry["amount"] if incoming else -entry["amount"]
            line["moved"] = f"{entry['debit']} → escrow" if incoming else f"escrow → {entry['credit']}"
            line["amount"] = money.render(entry["amount"], exponent)
        line["escrow"] = money.render(held, exponent)
        line["note"] = "; ".join(f"{name}: {entry[name]}" for name in _NOTES if name in entry)
        lines.append(line)
    return lines


def _advice(result: dict[str, Any], journal: list[dict[str, str]]) -> dict[str, Any]:
    """Return whether it is safe to send the payment again, under the same key and under a new one."""
    status = result["status"]
    held = f"the escrow has {result['escrow']} {result['currency']}"
    new_key_safe, why = {
        "PROCESSING": (False, f"it may still go through: {held}"),
        "SETTLED": (False, "the payee has been paid, and would be paid twice"),
        "REJECTED": (True, "nothing was ever held"),
        "COMPENSATING": (False, f"its reversal is not finished: {held}"),
        "COMPENSATED": (True, "the payer is refunded in full"),
        "LIMBO": (False, f"it waits for a person's decision: {held}; see `settle limbo show`"),
    }[status]
    decisive = _DECISIVE.get(status)
    evidence = [
        f"{line['posted_at']} {line['step']}: {line['moved'] or line['note']} {line['amount']}".rstrip()
        for line in journal
        if (line["step"] in decisive if decisive else line["moved"])
    ]
    return {
        "same_key": f"safe: it answers {status} again and moves nothing",
        "new_key": f"{'safe' if new_key_safe else 'NOT safe'}: {why}",
        "new_key_safe": new_key_safe,
        "evidence": evidence or ["no journal entry moves money"],
    }
