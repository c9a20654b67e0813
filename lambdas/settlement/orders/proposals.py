"""Writes of a proposal's row. The decision's own writes move the money in the same transaction."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from settlement.core.ledger import entries, keys
from settlement.core.ledger.conditions import (
    ABSENT,
    PROPOSAL_OPEN,
    approvals_are,
    digest_is,
    not_yet,
    replaces,
    still_valid,
)
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, OnFailure, Write, placeholders, put, update
from settlement.core.model.errors import ProposalRefused, SettlementError
from settlement.core.model.settlement import Settlement
from settlement.core.model.timestamps import timestamp
from settlement.http.caller import Caller
from settlement.orders.proposal import Move, Proposal, ProposalStatus


def propose(proposal: Proposal, latest: Proposal | None) -> Write:
    """Put a proposal. It replaces `latest`, which was void or closed."""

    def meaning(found: Row | None) -> SettlementError | AlreadyApplied:
        if found and found["seen"] == proposal.seen:
            return AlreadyApplied(found)
        return ProposalRefused("proposal: another one was faster; look at it")

    condition = replaces(latest.proposal_number) if latest else ABSENT
    return put({**keys.proposal(proposal.key), **proposal.to_row()}, on_failure=meaning, condition=condition)


def approve(proposal: Proposal, caller: Caller, now: datetime) -> Write:
    """Count an approval. It must not be the last approval."""
    return _approve(proposal, caller, now, is_last=False)


def complete(proposal: Proposal, caller: Caller, now: datetime) -> Write:
    """Count the last approval, in one transaction with the decision."""
    return _approve(proposal, caller, now, is_last=True)


def withdraw(proposal: Proposal, caller: Caller, now: datetime) -> Write:
    return update(
        keys.proposal(proposal.key),
        "SET #status = :withdrawn, withdrawn_by = :by, withdrawn_at = :now",
        values={":withdrawn": ProposalStatus.WITHDRAWN, ":by": caller.by, ":now": timestamp(now)},
        conditions=[PROPOSAL_OPEN, digest_is(proposal.seen)],
        on_failure=_meaning(proposal, lambda row: row["status"] == ProposalStatus.WITHDRAWN),
    )


def record(settlement: Settlement, proposal: Proposal, move: Move, caller: Caller, now: datetime) -> Write:
    """Build a move's evidence.

    The proposal's row detects a replay first. If the evidence exists but the row lacks the move, the row was
    lost or is outdated, so the move is refused.
    """
    count = f":{proposal.approvals + 1}" if move is Move.APPROVE else ""
    content = {
        "decision": proposal.decision,
        "reason": proposal.reason,
        "digest": proposal.seen,
        "by": caller.by,
        **caller.proof,
    }
    step = f"{move}:{proposal.proposal_number}{count}"
    lost = ProposalRefused(f"proposal: {step} is on record, but not in its row; propose it anew")
    return replace(entries.evidence(settlement, step, content, now), on_failure=lambda found: lost)


def _approve(proposal: Proposal, caller: Caller, now: datetime, *, is_last: bool) -> Write:
    def replay_if(row: Row) -> bool:
        """Whether an approval is a replay. The decision's evidence shows a replay of the last approval."""
        return not is_last and caller.person in row["persons"] - {row["proposer"]}

    more, values = (", #status = :done", {":done": ProposalStatus.DONE}) if is_last else ("", {})
    return update(
        keys.proposal(proposal.key),
        "SET approvals = :count, approved_by = :approved_by, approved_in = :approved_in"
        f"{more} ADD persons :mine",
        values={
            ":count": proposal.approvals + 1,
            ":mine": {caller.person},
            **placeholders(proposal.approved(caller)),
            **values,
        },
        conditions=[
            PROPOSAL_OPEN,
            digest_is(proposal.seen),
            not_yet(caller.person),
            approvals_are(proposal.approvals),
            still_valid(now),
        ],
        on_failure=_meaning(proposal, replay_if),
    )


def _meaning(proposal: Proposal, replay_if: Callable[[Row], bool]) -> OnFailure:
    def meaning(found: Row | None) -> SettlementError | AlreadyApplied:
        if found and found["seen"] == proposal.seen and replay_if(found):
            return AlreadyApplied(found)
        return ProposalRefused("proposal: it has changed since it was looked at, or is not yours to approve")

    return meaning
