"""Orders of several persons.

The last approval carries the decision out, in one transaction with the proposal's row.
"""

from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Any

from settlement.aws import event_bus
from settlement.core import telemetry
from settlement.core.ledger import keys
from settlement.core.ledger.transaction import AlreadyApplied, Write
from settlement.core.model.errors import ProposalRefused
from settlement.core.model.orders import REVERSE, Reversal
from settlement.core.model.state import SettlementState
from settlement.core.policy.pager import PagerConfig
from settlement.http.caller import Caller
from settlement.orders import approval, proposals
from settlement.orders.orders import Orders
from settlement.orders.proposal import Move, Proposal, ProposalStatus
from settlement.orders.requests import (
    REVERSE_PART,
    PartialReversal,
    parse_named,
    parse_resolution,
    parse_reversal,
    parse_shown,
)

_TOLD = (
    *("decision", "case", "reason", "proposed_by", "proposed_at", "valid_until"),
    *("needed", "approvals", "status"),
)


@dataclass(frozen=True, kw_only=True)
class FourEyes:
    """Orders of several persons. `pager` names the runbook of break-glass orders."""

    orders: Orders
    pager: PagerConfig

    def propose(self, decision: str, body: object, caller: Caller) -> dict[str, Any]:
        key, order = self._parsed(decision, body, caller)
        # Read before the settlement: a proposal that does not fit it then never will.
        latest = self._latest(key)
        state, now = self.orders.state_of(key), self.orders.now()
        config = self.orders.config
        number = self._next_number(key, latest)
        proposal = approval.proposed(state, order, caller, number=number, now=now, config=config)
        if (
            latest
            and latest.is_valid(now)
            and approval.is_of(state, latest, config)
            and not self._is_older(latest)
        ):
            same = ("decision", "case", "part", "amount", "reason", "proposer")
            if all(getattr(latest, name) == getattr(proposal, name) for name in same):
                return self._answer(latest, state)
            raise ProposalRefused(
                f"proposal: {latest.decision} by {latest.proposed_by} is open;"
                " approve it, or withdraw it first"
            )
        writes = (
            proposals.propose(proposal, latest),
            proposals.record(state.settlement, proposal, Move.PROPOSE, caller, now),
        )
        return self._answer(Proposal.from_row(self.orders.store.record(writes)), state)

    def approve(self, decision: str, body: object, caller: Caller) -> dict[str, Any]:
        """Approve a proposal. The last approval carries the decision out.

        A repeated call gets the recorded answer, and wakes the execution if an earlier call failed to.
        """
        key, named = parse_shown(body, decision)
        # Read before the settlement: a proposal that does not fit it then never will.
        latest = self._latest(key)
        state, now = self.orders.state_of(key), self.orders.now()
        proposal = approval.ensure_named(latest, named)
        order = approval.order_of(state, proposal, caller)
        if proposal.status is ProposalStatus.DONE and self.orders.is_on_record(state, order):
            return self._carry_out(state, order, now)
        if proposal.is_valid(now) and caller.person in proposal.persons - {proposal.proposer}:
            return self._answer(proposal, state)
        approval.ensure_approvable(state, proposal, caller, now, self.orders.config)
        approval.ensure_shown(state, proposal, named, self.orders.config)
        if self._is_older(proposal):
            raise ProposalRefused("proposal: a later move is on record, but not in its row; propose it anew")
        if proposal.lacking == 1:
            return self._carry_out(state, order, now, proposals.complete(proposal, caller, now))
        evidence = proposals.record(state.settlement, proposal, Move.APPROVE, caller, now)
        return self._moved(proposals.approve(proposal, caller, now), evidence, state)

    def withdraw(self, decision: str, body: object, caller: Caller) -> dict[str, Any]:
        """Withdraw one's own or another person's proposal."""
        key, named = parse_named(body, decision)
        latest = self._latest(key)
        state, now = self.orders.state_of(key), self.orders.now()
        proposal = approval.ensure_named(latest, named)
        if proposal.status is ProposalStatus.WITHDRAWN:
            return self._answer(proposal, state)
        if proposal.status is ProposalStatus.DONE:
            raise ProposalRefused("withdraw: the proposal was approved and carried out")
        evidence = proposals.record(state.settlement, proposal, Move.WITHDRAW, caller, now)
        return self._moved(proposals.withdraw(proposal, caller, now), evidence, state)

    def break_glass(self, decision: str, body: object, caller: Caller) -> dict[str, Any]:
        """Carry out one person's order that needs several persons. First, everybody is paged.

        Raises PageUnavailable and the order's refusals.
        """
        key, order = self._parsed(decision, body, caller, break_glass="yes")
        state = self.orders.state_of(key)
        if not self.orders.is_on_record(state, order):
            approval.ensure_fits(state, order)
            pager, config = self.pager, self.orders.config
            event_bus.put("GlassBroken", approval.broken_glass(state, order, config, pager))
        return self._carry_out(state, order, self.orders.now())

    def _parsed(
        self, decision: str, body: object, caller: Caller, **more: str
    ) -> tuple[str, approval.AnyOrder]:
        if decision == REVERSE_PART:
            state, part = self.orders.part_of(body, caller, **more)
            return state.key, part
        parse = parse_reversal if decision == REVERSE else parse_resolution
        key, order = parse(body, caller, **more)
        return key, order

    def _latest(self, key: str) -> Proposal | None:
        row = self.orders.store.read(keys.proposal(key))
        return Proposal.from_row(row) if row else None

    def _is_older(self, latest: Proposal) -> bool:
        """Whether an open proposal's row is older than its evidence, as after a restore.

        The second read rules out a move that commits meanwhile.
        """
        number = latest.proposal_number
        later = (
            f"{Move.WITHDRAW}:{number}",
            f"{Move.APPROVE}:{number}:{latest.approvals + 1}",
            f"{Move.PROPOSE}:{number + 1}",
        )
        is_moved = any(self.orders.store.evidence(latest.key, step) for step in later)
        return is_moved and self._latest(latest.key) == latest

    def _next_number(self, key: str, latest: Proposal | None) -> int:
        """The first proposal number without evidence. A row may be lost; evidence is kept."""
        numbers = count((latest.proposal_number if latest else 0) + 1)
        return next(n for n in numbers if not self.orders.store.evidence(key, f"{Move.PROPOSE}:{n}"))

    def _carry_out(
        self, state: SettlementState, order: approval.AnyOrder, now: datetime, completing: Write | None = None
    ) -> dict[str, Any]:
        if isinstance(order, PartialReversal):
            return self.orders.carry_out_part(state, order, now, completing)
        if isinstance(order, Reversal):
            return self.orders.carry_out_reversal(state, order, now, completing)
        return self.orders.carry_out_resolution(state, order, now, completing)

    def _moved(self, write: Write, evidence: Write, state: SettlementState) -> dict[str, Any]:
        try:
            self.orders.store.transact((write, evidence))
        except AlreadyApplied as earlier:
            telemetry.count("StepReplayed")
            return self._answer(Proposal.from_row(earlier.found), state)
        latest = self._latest(state.key)
        if latest is None:
            raise ProposalRefused("proposal: it is gone")
        return self._answer(latest, state)

    def _answer(self, proposal: Proposal, state: SettlementState) -> dict[str, Any]:
        told = {name: getattr(proposal, name) for name in _TOLD}
        if proposal.part:
            told["part"] = proposal.part
        config = self.orders.config
        if proposal.part or approval.is_of(state, proposal, config):
            amount = approval.amount_of(state, proposal, config)
            told |= {"amount": amount, "currency": state.settlement.currency}
        return {"key": proposal.key, "proposal": told | {"digest": proposal.seen}}
