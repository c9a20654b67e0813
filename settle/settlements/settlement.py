from datetime import UTC, datetime
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.orders import proposal
from settle.settlements import aside, executions
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.kyc_review import REVIEW
from settlement.core.model import accounts, money
from settlement.core.model.saga import REVERSIBLE, SAGA, Step
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status
from settlement.core.model.stored import MalformedRow
from settlement.core.policy import outcome
from settlement.proof import Retention, journal, judgement, rows, settlement_row

_NOTES = ("decision", "reason", "by", "error", "cause", "reference", "provider", "expired")
"""Fields shown as notes, in order."""

_EVIDENCE = ("step", "posted_at")
_ENTRY = (*_EVIDENCE, "debit", "credit", "amount")

_DECISIVE = {"SETTLED": (Step.RELEASE, Step.FEE), "COMPENSATED": (Step.HOLD, Step.HOLD.reversal)}
"""Steps that prove a status. After a write-off or reversal in part, all entries that moved money prove it."""

_IN_ORDER = (
    *(name for step in Step for name in ((step, REVIEW) if SAGA[step].decides else (step,))),
    *(step.reversal for step in REVERSIBLE),
)
"""Order of the steps within a millisecond."""


def state_of(stack: Stack, key: str) -> SettlementState:
    """Return a settlement's state. Raises CommandFailed for an unclaimed key."""
    state = stack.store.settlement(key)
    if state is None:
        raise unclaimed(stack, key)
    return state


def entries_of(stack: Stack, row: Row) -> list[Row]:
    """Return entries and evidence, oldest first. An entry and evidence of one step are merged.

    Expired entries are rebuilt from the settlement's row. Raises MalformedRow.
    """
    return merged(stack, row, journal.read(stack.store, row))


def merged(stack: Stack, row: Row, read: journal.Journal) -> list[Row]:
    _ensure_sound(read)
    lines = {one["step"]: one for one in read.evidence}
    for entry in (*read.entries, *_expired(stack, row, read)):
        lines[entry["step"]] = lines.get(entry["step"], {}) | entry
    entries = sorted(
        lines.values(), key=lambda line: _IN_ORDER.index(line["step"]) if line["step"] in _IN_ORDER else 0
    )
    return sorted(entries, key=lambda line: str(line["posted_at"]))


def _ensure_sound(read: journal.Journal) -> None:
    for found, needed in ((read.evidence, _EVIDENCE), (read.entries, _ENTRY)):
        for row in found:
            spoilt = {name for name in row if not aside.is_sound(name, row[name])}
            wrong = [name for name in needed if name not in row or name in spoilt] or sorted(spoilt)
            if wrong:
                raise MalformedRow(f"{row['pk']} / {row['sk']}: has no sound {', '.join(wrong)}")


def _expired(stack: Stack, row: Row, read: journal.Journal) -> list[Row]:
    retention = Retention.at(datetime.now(UTC), stack.config.shortest_retention_days)
    if retention.days is None:
        return []
    entries, evidence = rows.sound(rows.entry, read.entries), rows.sound(rows.evidence, read.evidence)
    told = settlement_row.settlement(row)
    gone = judgement.expired(told, list(entries), list(evidence), retention)
    return [judgement.row_of(one) | {"expired": "the settlement's row tells it"} for one in gone]


def describe(stack: Stack, key: str) -> dict[str, Any]:
    row = stack.store.read(keys.settlement(key))
    if row is None:
        raise unclaimed(stack, key)
    state = SettlementState.from_row(row)
    lines = lines_of(stack, state, entries_of(stack, row))
    result = outcome.of_state(state, stack.config, replayed=False)
    return {
        **result,
        "review": _review(state),
        **proposal.open_on(stack, state),
        **executions.describe(stack, state),
        "entries": lines,
        "retry": advice(result, lines),
    }


def unclaimed(stack: Stack, key: str) -> CommandFailed:
    return CommandFailed(Exit.NOT_FOUND, f"key: no request has claimed {key} in {stack.name}")


def _review(state: SettlementState) -> dict[str, str | None] | None:
    if state.status is Status.PROCESSING and state.is_in_review:
        return {"reference": state.review, "until": state.deadline_at}
    return None


def lines_of(stack: Stack, state: SettlementState, entries: list[Row]) -> list[dict[str, str]]:
    exponent, key, held = state.settlement.exponent(stack.config), state.key, 0
    lines = []
    for entry in entries:
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


def advice(result: dict[str, Any], lines: list[dict[str, str]]) -> dict[str, Any]:
    status = result["status"]
    new_key_safe = result["next"]["action"] == outcome.Action.NEW_KEY
    gave_back_otherwise = "covered" in result or "reversed_in_part" in result
    decisive = None if gave_back_otherwise else _DECISIVE.get(status)
    evidence = [
        f"{line['posted_at']} {line['step']}: {line['moved'] or line['note']} {line['amount']}".rstrip()
        for line in lines
        if (line["step"] in decisive if decisive else line["moved"])
    ]
    return {
        "same_key": f"safe: it answers {status} again and moves nothing",
        "new_key": f"{'safe' if new_key_safe else 'NOT safe'}: {result['next']['reason']}",
        "new_key_safe": new_key_safe,
        "evidence": evidence or ["no journal entry moves money"],
    }
