"""The open proposal of a decision on a settlement, and the command that approves it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.stack import Stack
from settlement.adapters import batch
from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.model import money
from settlement.model.proposal import Proposal
from settlement.model.state import SettlementState
from settlement.model.stored import MalformedRow
from settlement.policy import approval

SHORT = 12
"""The digits of a digest that a person types."""


def latest(stack: Stack, key: str) -> Proposal | None:
    """Return the latest proposal about a settlement, which may be closed, expired or void."""
    row = stack.store.read(keys.proposal(key))
    return Proposal.from_row(row) if row else None


def named(stack: Stack, key: str, digest: str) -> Proposal:
    """Return the latest proposal if it is the one of which the digest was shown. Raises CommandFailed."""
    found = latest(stack, key)
    if found is None:
        raise CommandFailed(Exit.CONFLICT, f"{key}: nothing is proposed")
    if len(digest) < SHORT or not found.seen.startswith(digest):
        raise CommandFailed(
            Exit.CONFLICT,
            "digest: that of the latest proposal is another one; look at it with"
            f" `settle status {key}{stack.option}`",
        )
    return found


def open_on(stack: Stack, state: SettlementState) -> dict[str, Any]:
    """Return what is proposed about a settlement and may be approved now; nothing if nothing is."""
    return open_in(stack, state, stack.store.read(keys.proposal(state.key)))


def open_in(stack: Stack, state: SettlementState, row: Row | None) -> dict[str, Any]:
    """Return the same as `open_on`, from the row of the latest proposal."""
    found = Proposal.from_row(row) if row else None
    return {"proposal": told(stack, found)} if found and _is_open(stack, state, found) else {}


@dataclass(frozen=True)
class Proposals:
    """Proposals that may be approved now, by key, and why others cannot be read."""

    open: dict[str, Proposal]
    unreadable: dict[str, str]


def open_on_many(stack: Stack, states: Sequence[SettlementState]) -> Proposals:
    """Return the proposals that may be approved now: 100 rows a call."""
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
    """Return how many approvals a proposal has, of those that it needs."""
    return f"{proposal.approvals} of {proposal.needed - 1}"


def told(stack: Stack, proposal: Proposal) -> dict[str, Any]:
    """Return a proposal as a person reads it, and the next command while it is open."""
    digest = proposal.seen[:SHORT]
    return {
        "decision": proposal.decision,
        **({"case": proposal.case} if proposal.case else {}),
        **(_part(stack, proposal) if proposal.part else {}),
        "reason": proposal.reason,
        "proposed_by": proposal.proposed_by,
        "approvals": approvals(proposal),
        "valid_until": proposal.valid_until,
        "digest": digest,
        "command": f"settle limbo approve {proposal.key} --digest {digest}{stack.option}",
    }


def _part(stack: Stack, proposal: Proposal) -> dict[str, Any]:
    """Return what a proposal to reverse a part gives back."""
    state = stack.store.settlement(proposal.key)
    if state is None:
        raise CommandFailed(Exit.NOT_FOUND, f"{proposal.key}: no request has claimed it")
    currency = state.settlement.currency
    amount = money.render(proposal.amount, state.settlement.exponent(stack.config))
    return {"part": proposal.part, "amount": amount, "currency": currency}


def _is_open(stack: Stack, state: SettlementState, found: Proposal) -> bool:
    return found.is_valid(datetime.now(UTC)) and approval.is_of(state, found, stack.config)
