"""The outcome of each line of a run, and its next action."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from settle.payruns.on_record import OnRecord
from settle.stack import Stack
from settlement.payruns import file, outcomes
from settlement.payruns.file import Kind, RunFile
from settlement.payruns.outcomes import Outcome

FIELDS = ("line", "payee", "amount", "currency", "reference", "outcome", "why", "next", "key")

_MEND = "the payer has the money: mend the line, and propose it in a follow-up run"


def lines(stack: Stack, one: OnRecord, found: RunFile) -> Iterator[dict[str, Any]]:
    """Yield each line of the file with its outcome now. Raises StoreUnavailable."""
    told = outcomes.of_lines(stack.store, stack.config, one.state.run, found.header, found.lines)
    for place, outcome in enumerate(told):
        line = outcome.line
        yield {
            "line": line.number,
            "payee": line.payee,
            "amount": line.amount,
            "currency": line.currency,
            "reference": line.reference,
            "outcome": outcome.status,
            "why": outcome.why or None,
            "next": _next(stack, one, outcome, is_cut=place >= one.state.last),
            "key": file.key_of(one.state.run, line.number),
        }


def counted(found: list[dict[str, Any]]) -> dict[str, int]:
    return dict(sorted(Counter(one["outcome"] for one in found).items()))


def unreadable(found: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [
        {"unreadable": f"line {one['line']}: {one['key']}"}
        for one in found
        if one["outcome"] == outcomes.UNREADABLE
    ]


def _next(stack: Stack, one: OnRecord, outcome: Outcome, *, is_cut: bool) -> str:
    key = file.key_of(one.state.run, outcome.line.number)
    is_payout = one.proposal.kind is Kind.PAYOUTS
    match outcome.status:
        case "SETTLED" | "PAID" | "CONFIRMED":
            return "nothing"
        case "REJECTED" | "COMPENSATED" | "RETURNED" | outcomes.REFUSED:
            return _MEND
        case outcomes.NOT_BEGUN:
            return "it is never paid" if is_cut else "the run has not come to it"
        case outcomes.UNREADABLE:
            return stack.command("reconcile")
        case "LIMBO" | outcomes.SUSPENSE:
            return stack.command("payout status" if is_payout else "limbo show", key)
        case _:
            return "it is under way: wait"
