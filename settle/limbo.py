"""Settlements in LIMBO: which there are, what is stuck, and what each decision would do."""

from typing import Any

from settle import journal, listing
from settle.failures import CommandFailed, Exit
from settle.stack import Stack
from settlement import compensation, money, rows
from settlement.errors import Refusal
from settlement.limbo import Case
from settlement.request import Settlement
from settlement.resolution import Decision
from settlement.rows import Row
from settlement.status import Status, Step


def list_open(stack: Stack) -> list[dict[str, Any]]:
    """Every settlement in LIMBO, the oldest first."""
    return [_summary(stack, row) for row in listing.in_limbo(stack).rows]


def first_open(stack: Stack, limit: int) -> tuple[list[dict[str, Any]], bool]:
    """The `limit` settlements that have been in LIMBO for the longest, and whether there are more."""
    found = listing.in_limbo(stack, limit)
    return [_summary(stack, row) for row in found.rows], found.more


def show(stack: Stack, key: str) -> dict[str, Any]:
    """What is stuck, why, and what each decision would do."""
    row = journal.row_of(stack, key)
    if row["status"] != Status.LIMBO:
        raise CommandFailed(Exit.CONFLICT, f"{key}: is {row['status']}, not in LIMBO")
    case = _case(row)
    barred = stack.store.read(rows.account_key(case.account)) if case.barred else None
    available = _amount(stack, row, barred["available"]) if barred else None
    return {
        **_summary(stack, row),
        "available": available,
        "escrow": _amount(stack, row, row["escrow"]),
        "cause": row["failure"]["cause"],
        "reversed_for": row["reversed_for"],
        "steps": sorted(row.get("steps", ())),
        "reversed": sorted(row.get("reversed", ())),
        "decisions": [_choice(stack, row, case, decision) for decision in Decision],
    }


def _choice(stack: Stack, row: Row, case: Case, decision: Decision) -> dict[str, Any]:
    """What a decision would do, and the command for it; or why it cannot be made, and none."""
    settlement = Settlement.of_row(row)
    try:
        compensation.check(settlement, row, decision)
    except Refusal as refusal:
        return {"decision": decision.value, "effect": f"not possible: {refusal}", "command": None}
    command = (
        f"settle limbo resolve {settlement.key} {decision} --case {case.number} --reason ''{stack.option}"
    )
    return {
        "decision": decision.value,
        "effect": _effect(stack, row, case, decision),
        "command": command,
    }


def _case(row: Row) -> Case:
    return compensation.stuck(Settlement.of_row(row), row)


def _summary(stack: Stack, row: Row) -> dict[str, Any]:
    case = _case(row)
    return {
        "key": rows.subject(row)[1],
        "case": case.number,
        "since": row["gsi1sk"],
        "account": case.account,
        "stuck_step": row["stuck_step"],
        "amount_at_risk": _amount(stack, row, case.amount),
        "currency": row["currency"],
        "error": row["failure"]["error"],
    }


def _effect(stack: Stack, row: Row, case: Case, decision: Decision) -> str:
    """What a decision that can be made would do, in a sentence."""
    stuck, currency = _amount(stack, row, case.amount), row["currency"]
    amount, held = _amount(stack, row, row["amount"]), _amount(stack, row, row["escrow"])
    if decision is Decision.RETRY and case.step is Step.HOLD:
        return f"gives {stuck} {currency} from the escrow back to {case.account}, once the cause is gone"
    if decision is Decision.RETRY:
        return f"takes {stuck} {currency} out of {case.account} once the cause is gone, and reverses the rest"
    if decision is Decision.WRITE_OFF:
        return (
            f"covers {stuck} {currency} from losses:{currency}, and gives {amount} {currency} back to"
            f" {row['payer']}; {case.account} keeps what it has"
        )
    return f"the payee {row['payee']} keeps what it received, {held} {currency} go to the fees: SETTLED"


def _amount(stack: Stack, row: Row, minor: int) -> str:
    return money.render(minor, stack.terms.currencies[row["currency"]])
