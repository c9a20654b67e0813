"""The report of a payout: its rows, read between two equal reads of its own row."""

from collections.abc import Mapping
from datetime import datetime
from operator import itemgetter
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.payouts import case, payout
from settle.reports import rows
from settle.reports.redaction import LEFT_OUT, redacted
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.timestamps import timestamp
from settlement.payouts.payout import State

SHOWN = frozenset(
    {
        *("pk", "sk", "gsi1pk", "gsi1sk", "step", "posted_at", "expires_at"),
        *("key", "status", "account", "amount", "currency", "destination", "reference", "sequence"),
        *("reserved_at", "attempts", "first_sent_at", "sent_at", "asked_from", "said", "said_at"),
        *("paid_at", "ended_at", "in_suspense", "given_back_at", "given_back_to", "next_look"),
        *("debit", "credit", "side", "moved"),
        *("case", "cases", "number", "since", "verdict", "effect", "contradicts"),
        *("proposed", "approved", "approved_at", "decided"),
    }
)
"""Attributes of a redacted report: no bank account, person, reason, bank's text, or hash of these.

The reference is shown: it depends on the key alone, and the bank finds the payout by it.
"""


def describe(stack: Stack, key: str, at: datetime, *, redact: bool = False) -> tuple[str, dict[str, Any]]:
    """Return the report's template and values. Raises CommandFailed, MalformedRow."""
    found, described = _look(stack, key)
    report = rows.about(stack, timestamp(at), found, redact=redact)
    if redact:
        found, described = [_redacted_row(row) for row in found], _redacted(described)
    template, values = payout.page_of(described)
    return template, values | {"report": report | {"rows": rows.folded(found)}}


def _look(stack: Stack, key: str) -> tuple[list[Row], dict[str, Any]]:
    def read(row: Row | None) -> tuple[list[Row], dict[str, Any]]:
        if row is None:
            raise payout.unknown(stack, key)
        state = State.from_row(row)
        entries, unreadable = payout.entries(stack, state)
        decisions, malformed = case.decisions(stack, key)
        found = case.of_rows(state, decisions)
        described = payout.of_rows(stack, state, entries, found, [*unreadable, *malformed])
        return [row, *sorted(entries, key=itemgetter("sk", "pk")), *decisions], described

    if found := rows.steady(stack, keys.payout(key), read):
        return found
    raise CommandFailed(Exit.CONFLICT, f"{key}: changes while it is read; try again")


def _redacted(described: Mapping[str, Any]) -> dict[str, Any]:
    told = redacted(dict(described), SHOWN) | {
        "next": described["next"],
        "entries": [redacted(one, SHOWN) for one in described["entries"]],
        "unreadable": [f"{one.partition(': ')[0]}: {LEFT_OUT}" for one in described["unreadable"]],
    }
    if opened := described.get("case"):
        told["case"] |= {"verdicts": [redacted(one, SHOWN) for one in opened["verdicts"]]}
    return told


def _redacted_row(row: Row) -> Row:
    """Redact a row. In a decision's sort key, hide the digest between case and verdict."""
    told = redacted(row, SHOWN)
    if keys.subject(row)[0] == "PAYOUT_CASE":
        number, *rest = row["sk"].split("#", 2)
        told["sk"] = "#".join((number, LEFT_OUT, *rest[1:]))
    return told
