from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.state import SettlementState
from settlement.core.model.stored import MalformedRow
from settlement.core.store import batch
from settlement.orders import approval
from settlement.orders.proposal import Proposal, ProposalStatus


def latest(stack: Stack, key: str) -> Proposal | None:
    """Return the latest proposal. It may be closed, expired or void."""
    row = stack.store.read(keys.proposal(key))
    return Proposal.from_row(row) if row else None


def open_on(stack: Stack, state: SettlementState) -> dict[str, Any]:
    """Return {"proposal": …} for a proposal that may be approved now. Otherwise return {}."""
    return open_in(stack, state, stack.store.read(keys.proposal(state.key)))


def open_in(stack: Stack, state: SettlementState, row: Row | None) -> dict[str, Any]:
    found = Proposal.from_row(row) if row else None
    return {"proposal": told(stack, state, found)} if found and _is_open(stack, state, found) else {}


@dataclass(frozen=True)
class Proposals:
    """Open proposals by settlement key, and the reasons of unreadable ones."""

    open: dict[str, Proposal]
    unreadable: dict[str, str]


def open_on_many(stack: Stack, states: Sequence[SettlementState]) -> Proposals:
    """Return the settlements' open proposals, read 100 rows a call."""
    found, unreadable = dict[str, Proposal](), dict[str, str]()

    def put_aside(row: Row, reason: str) -> None:
        unreadable[keys.subject(row)[1]] = reason

    for row in batch.read(stack.store, [keys.proposal(state.key) for state in states], put_aside):
        try:
            found[keys.subject(row)[1]] = Proposal.from_row(row)
        except MalformedRow as malformed:
            put_aside(row, str(malformed))
    is_open = {
        state.key: found[state.key]
        for state in states
        if state.key in found and _is_open(stack, state, found[state.key])
    }
    return Proposals(is_open, unreadable)


def approvals(proposal: Proposal) -> str:
    return f"{proposal.approvals} of {proposal.needed - 1}"


def told(stack: Stack, state: SettlementState, proposal: Proposal) -> dict[str, Any]:
    """Describe a proposal. A closed or void proposal has no amount and no command."""
    fits = proposal.status is ProposalStatus.OPEN and approval.is_of(state, proposal, stack.config)
    amount = approval.amount_of(state, proposal, stack.config) if fits else ""
    return {
        "decision": proposal.decision,
        **_numbers(proposal),
        **({"amount": amount, "currency": state.settlement.currency} if fits else {}),
        "reason": proposal.reason,
        "proposed_by": proposal.proposed_by,
        "approvals": approvals(proposal),
        "valid_until": proposal.valid_until,
        "digest": proposal.seen,
        **({"command": _command(stack, proposal, amount)} if fits else {}),
    }


def shown(proposal: Proposal, amount: str) -> dict[str, Any]:
    numbers = _numbers(proposal)
    return {"decision": proposal.decision, **numbers, "amount": amount, "digest": proposal.seen}


def _command(stack: Stack, proposal: Proposal, amount: str) -> str:
    of = {**_numbers(proposal), "amount": amount, "digest": proposal.seen}
    return stack.command("limbo approve", proposal.key, proposal.decision, **of)


def _numbers(proposal: Proposal) -> dict[str, int]:
    return {name: number for name in ("case", "part") if (number := getattr(proposal, name))}


def _is_open(stack: Stack, state: SettlementState, found: Proposal) -> bool:
    return found.is_valid(datetime.now(UTC)) and approval.is_of(state, found, stack.config)
