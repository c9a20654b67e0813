from datetime import datetime
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.orders import proposal
from settle.reports import path, rows, timeline
from settle.reports.redaction import LEFT_OUT, redacted
from settle.settlements import executions, settlement
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status
from settlement.core.model.timestamps import timestamp
from settlement.core.policy import outcome
from settlement.proof import journal

_ORDER = ("by", "approved_by", "break_glass", "reason", "request_id", "source_ip")


def describe(stack: Stack, key: str, at: datetime, *, redact: bool = False) -> dict[str, Any]:
    """Describe a settlement. Raises CommandFailed.

    `redact` hides attributes that may name a person or a reason.
    """
    row, read, proposed = _look(stack, key)
    entries = settlement.merged(stack, row, read)
    original = SettlementState.from_row(row)
    proposals = proposal.open_in(stack, original, proposed)
    about = rows.about(stack, timestamp(at), _rows(row, read, proposed), redact=redact)
    if redact:
        row, entries = redacted(row), list(map(redacted, entries))
        read = journal.Journal(list(map(redacted, read.entries)), list(map(redacted, read.evidence)))
        proposed = redacted(proposed) if proposed else None
        proposals = {name: redacted(one) | {"command": LEFT_OUT} for name, one in proposals.items()}
    state = SettlementState.from_row(row)
    lines = settlement.lines_of(stack, state, entries)
    result = outcome.of_state(state, stack.config, replayed=False)
    evidence = sorted(read.evidence, key=lambda one: str(one["posted_at"]))
    return {
        **about,
        "outcome": result,
        "names": {name: row[name] for name in ("payer_name", "payee_name") if name in row},
        "reversed_for": state.reversed_for,
        "stuck_step": state.stuck_step,
        "sequence": state.sequence,
        "activity": executions.describe(stack, original),
        "walks": path.walks(state, evidence),
        "timeline": timeline.moments(state, row, evidence, at),
        "entries": _entries(stack, entries, lines),
        "verdicts": [one for one in evidence if "provider" in one],
        "review": state.review if state.status is Status.PROCESSING else None,
        "cases": [one for one in evidence if one["step"].startswith("limbo:")],
        "orders": [_order(one) for one in evidence if "by" in one],
        "proposal": proposals.get("proposal"),
        "retry": settlement.advice(result, lines),
        "next": _next(stack, state),
        "rows": rows.folded(_rows(row, read, proposed)),
    }


def _look(stack: Stack, key: str) -> tuple[Row, journal.Journal, Row | None]:
    def read(row: Row | None) -> tuple[Row, journal.Journal, Row | None]:
        if row is None:
            raise settlement.unclaimed(stack, key)
        SettlementState.from_row(row)
        return row, journal.read(stack.store, row), stack.store.read(keys.proposal(key))

    if found := rows.steady(stack, keys.settlement(key), read):
        return found
    wait = stack.command("wait", key)
    raise CommandFailed(Exit.CONFLICT, f"{key}: changes while it is read; `{wait}`, or try again")


def _rows(row: Row, read: journal.Journal, proposed: Row | None) -> list[Row]:
    return [row, *read.entries, *read.evidence, *([proposed] if proposed else [])]


def _entries(stack: Stack, entries: list[Row], lines: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [
        {
            "posted_at": entry["posted_at"],
            "step": entry["step"],
            "debit": entry["debit"],
            "credit": entry["credit"],
            "amount": line["amount"],
            "escrow": line["escrow"],
            "expired": entry.get("expired", ""),
        }
        for entry, line in zip(entries, lines, strict=True)
        if "debit" in entry
    ]


def _order(row: Row) -> dict[str, Any]:
    return {
        "posted_at": row["posted_at"],
        "step": row["step"],
        "decision": row.get("decision", ""),
        **{name: row.get(name, "") for name in _ORDER},
    }


def _next(stack: Stack, state: SettlementState) -> str | None:
    verb = {Status.PROCESSING: "wait", Status.COMPENSATING: "wait", Status.LIMBO: "limbo show"}.get(
        state.status
    )
    return verb and stack.command(verb, state.key)
