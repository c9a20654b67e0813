import hashlib
import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from settlement.core.model import money
from settlement.core.model.command import command
from settlement.core.model.errors import NotReversible, ProposalRefused
from settlement.core.model.orders import REVERSE, Decision, Resolution, Reversal
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status, Step
from settlement.core.model.timestamps import timestamp
from settlement.core.policy import compensation
from settlement.core.policy.pager import PagerConfig
from settlement.http.caller import Caller
from settlement.orders import parts
from settlement.orders.proposal import Proposal, ProposalStatus
from settlement.orders.requests import REVERSE_PART, Named, PartialReversal

AnyOrder = Resolution | Reversal | PartialReversal

VALID_FOR = timedelta(hours=24)

PERSONS_LEAST = 2
"""Minimum persons of a proposal, which always asks for a second person."""


def digest_of(state: SettlementState, proposal: Proposal) -> str:
    """The digest of a decision, its proposer and the settlement's state.

    The decision's write requires that state. The digest covers `released`, because the escrow is empty before
    the hold and after the release. It leaves out checks, because a check may be recorded later.
    """
    settlement = state.settlement
    in_limbo = state.status is Status.LIMBO
    seen = {
        **{name: getattr(proposal, name) for name in ("key", "decision", "case", "reason", "needed")},
        **{name: getattr(proposal, name) for name in ("proposal_number", "proposer")},
        "request": state.request_hash,
        "amount": settlement.amount,
        "fee": settlement.fee,
        "currency": settlement.currency,
        "status": state.status,
        "resolutions": state.resolutions,
        "escrow": state.escrow,
        "released": Step.RELEASE in state.steps,
        "stuck_step": state.stuck_step,
        "stuck_amount": compensation.stuck_case(state).amount if in_limbo else 0,
    }
    if proposal.part:
        seen |= {"part": proposal.part, "amount_of_part": proposal.amount, "parts": state.parts}
    return hashlib.sha256(json.dumps(seen, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def needed(state: SettlementState, decision: str, config: StageConfig) -> int:
    """Number of persons that a decision needs. A part counts as a full reversal, because parts add up."""
    decision = REVERSE if decision == REVERSE_PART else decision
    return config.persons_for(decision, state.settlement.amount, state.settlement.currency)


def proposed(
    state: SettlementState,
    order: AnyOrder,
    caller: Caller,
    *,
    number: int,
    now: datetime,
    config: StageConfig,
) -> Proposal:
    """Build a proposal. Raises the decision's refusal if the decision is not possible now."""
    ensure_fits(state, order)
    decision = decision_of(order)
    proposal = Proposal(
        key=state.key,
        decision=decision,
        case=order.case if isinstance(order, Resolution) else 0,
        part=order.part if isinstance(order, PartialReversal) else 0,
        amount=order.amount if isinstance(order, PartialReversal) else 0,
        reason=order.reason,
        seen="",
        proposal_number=number,
        proposer=caller.person,
        persons=frozenset({caller.person}),
        proposed_by=caller.by,
        user_id=caller.user_id,
        request_id=caller.request_id,
        source_ip=caller.source_ip,
        proposed_at=timestamp(now),
        valid_until=timestamp(now + VALID_FOR),
        needed=max(PERSONS_LEAST, needed(state, decision, config)),
    )
    return replace(proposal, seen=digest_of(state, proposal))


def is_of(state: SettlementState, proposal: Proposal, config: StageConfig) -> bool:
    """Whether the proposal still fits the settlement and the number of persons needed."""
    now_needed = max(PERSONS_LEAST, needed(state, proposal.decision, config))
    return digest_of(state, replace(proposal, needed=now_needed)) == proposal.seen


def order_of(state: SettlementState, proposal: Proposal, caller: Caller) -> AnyOrder:
    by, proof = proposal.proposed_by, proposal.proof | proposal.approved(caller)
    proof |= {"digest": proposal.seen}
    if proposal.decision == REVERSE_PART:
        return PartialReversal(
            reason=proposal.reason, by=by, proof=proof, part=proposal.part, amount=proposal.amount
        )
    if proposal.decision == REVERSE:
        expected = Status.PROCESSING if state.status is Status.PROCESSING else Status.SETTLED
        return Reversal(reason=proposal.reason, by=by, proof=proof, expected_status=expected)
    decision = Decision(proposal.decision)
    return Resolution(reason=proposal.reason, by=by, proof=proof, decision=decision, case=proposal.case)


def decision_of(order: AnyOrder) -> str:
    if isinstance(order, PartialReversal):
        return REVERSE_PART
    return order.decision.value if isinstance(order, Resolution) else REVERSE


def ensure_fits(state: SettlementState, order: AnyOrder) -> None:
    """Raise ResolutionRefused, StepFenced, NotReversible or PartRefused if the order does not fit."""
    if isinstance(order, Resolution):
        compensation.ensure_can_resolve(state, order.decision, order.case)
    elif isinstance(order, PartialReversal):
        parts.ensure_next(state, order)
    elif state.parts:
        raise NotReversible(f"{state.parts} parts were reversed: reverse the rest in part", state.status)
    elif state.status is not order.expected_status or state.resolution is not None:
        raise NotReversible(
            f"it was to be {order.expected_status}, but the settlement is {state.status}", state.status
        )


def amount_of(state: SettlementState, proposal: Proposal, config: StageConfig) -> str:
    amount = proposal.amount
    if not proposal.part:
        in_limbo = state.status is Status.LIMBO
        amount = compensation.stuck_case(state).amount if in_limbo else state.settlement.amount
    return money.render(amount, state.settlement.exponent(config))


def ensure_named(proposal: Proposal | None, named: Named) -> Proposal:
    """Return the latest proposal, if `named` names it. Raises ProposalRefused."""
    if proposal is None or proposal.decision != named.decision:
        raise ProposalRefused(f"digest: there is no proposal to {named.decision}")
    if proposal.seen != named.digest:
        raise ProposalRefused("digest: it is not that of the latest proposal; look at it again")
    for name, number in (("case", proposal.case), ("part", proposal.part)):
        if getattr(named, name) not in (None, number):
            raise ProposalRefused(f"{name}: that of the proposal is {number}; look at it again")
    return proposal


def ensure_shown(state: SettlementState, proposal: Proposal, named: Named, config: StageConfig) -> None:
    if named.amount != (amount := amount_of(state, proposal, config)):
        raise ProposalRefused(f"amount: that of the proposal is {amount}; look at it again")


def ensure_approvable(
    state: SettlementState, proposal: Proposal, caller: Caller, now: datetime, config: StageConfig
) -> None:
    """Raise ProposalRefused, with the reason, if the approval's write would fail."""
    if proposal.status is not ProposalStatus.OPEN:
        raise ProposalRefused(f"proposal: it is {proposal.status}")
    if not proposal.is_valid(now):
        raise ProposalRefused(f"proposal: it expired at {proposal.valid_until}; propose it again")
    if caller.person in proposal.persons:
        raise ProposalRefused(f"approve: {caller.person} takes part in it already; it needs another person")
    if not is_of(state, proposal, config):
        raise ProposalRefused("digest: the settlement has changed since it was proposed; propose it again")


def broken_glass(
    state: SettlementState, order: AnyOrder, config: StageConfig, pager: PagerConfig
) -> dict[str, Any]:
    """The page about a person who decides alone where more persons are needed."""
    settlement, decision = state.settlement, decision_of(order)
    exponent = settlement.exponent(config)
    whole = money.render(settlement.amount, exponent)
    amount, of_it = whole, ""
    if isinstance(order, PartialReversal):
        amount = money.render(order.amount, exponent)
        of_it = f" {amount} of"
    return {
        "summary": (
            f"break-glass: {order.by} decides {decision} alone on{of_it} {state.key},"
            f" a payment of {whole} {settlement.currency}; look at it"
        ),
        "key": state.key,
        "decision": decision,
        "amount": amount,
        "currency": settlement.currency,
        "status": state.status,
        **order.evidence(),
        "runbook": pager.runbook,
        "next_command": command("status", state.key, stack=pager.stack),
    }
