"""Orders about a settlement. An order is recorded with its effect, before an execution is woken.

If the function dies in between, recovery or a repeated order starts an execution.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from settlement.aws import resumption, step_functions
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import Write
from settlement.core.model import executions, money
from settlement.core.model.errors import (
    AccountNotFound,
    ApprovalNeeded,
    NotReversible,
    SettlementNotFound,
    StartUnavailable,
    StepFenced,
)
from settlement.core.model.orders import REVERSE, Resolution, Reversal, order_name
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.status import FINISHED, Status
from settlement.core.policy import compensation
from settlement.core.store.dynamodb import Store
from settlement.http.caller import Caller
from settlement.orders import approval, partial_reversal, parts
from settlement.orders.requests import (
    PartialReversal,
    key_of_part,
    parse_part,
    parse_recovery,
    parse_resolution,
    parse_reversal,
    part_name,
)

_ON_RECORD = (
    *("decision", "reason", "by", "user_id", "request_id", "posted_at"),
    *("approved_by", "approved_in", "break_glass"),
)


@dataclass(frozen=True, kw_only=True)
class Orders:
    store: Store
    config: StageConfig
    now: Callable[[], datetime]
    nonce: Callable[[], str]
    before_refund: Callable[[Store, SettlementState], None]

    def resolve(self, body: object, caller: Caller) -> dict[str, Any]:
        """Decide a LIMBO case. Return the recorded decision.

        Raises InvalidRequest, SettlementNotFound, ResolutionRefused and ApprovalNeeded. Raises StepFenced if
        the case has another decision or is not open.
        """
        key, order = parse_resolution(body, caller)
        state = self.state_of(key)
        self._ensure_one_is_enough(state, order)
        return self.carry_out_resolution(state, order, self.now())

    def carry_out_resolution(
        self, state: SettlementState, order: Resolution, now: datetime, completing: Write | None = None
    ) -> dict[str, Any]:
        """Carry out a case's decision. `completing` is the last approval's write."""
        key = state.key
        owner = executions.ordered(key, "resolve", self.nonce())
        if state.resolutions >= order.case:
            entry, is_new = self.store.evidence(key, order_name(order.case)), False
        else:
            entry, is_new = self._decide(state, order, owner, now, completing)
        if entry is None or not order.is_on(entry):
            raise StepFenced(
                "resolve", f"case {order.case} was decided otherwise{_told(entry)}", state.status
            )
        if not is_new:
            state = self.state_of(key)
        if not step_functions.wake(self._waiting(key, order.case), {"case": order.case}):
            if is_new:
                self._start(state, owner, order_name(order.case))
            elif state.status is Status.COMPENSATING:
                _resume(key)
        return {"key": key, "case": order.case, "order": _on_record(entry)}

    def reverse(self, body: object, caller: Caller) -> dict[str, Any]:
        """Reverse a settlement. Return the recorded order, new or earlier.

        Raises InvalidRequest, SettlementNotFound, NotReversible and ApprovalNeeded.
        """
        key, order = parse_reversal(body, caller)
        state = self.state_of(key)
        self._ensure_one_is_enough(state, order)
        return self.carry_out_reversal(state, order, self.now())

    def carry_out_reversal(
        self, state: SettlementState, order: Reversal, now: datetime, completing: Write | None = None
    ) -> dict[str, Any]:
        key = state.key
        seen = state.sequence if completing else None
        transaction = compensation.reverse_on_order(state.settlement, order, now, self.config, seen)
        found: Row | None = self.store.commit(replace(transaction, proposal=completing))
        state = self.state_of(key)
        if state.status is Status.SETTLED:
            raise NotReversible(
                "the settlement was completed out of LIMBO since it was first ordered", state.status
            )
        if state.status is Status.COMPENSATING and found is None:
            self._start(state, executions.ordered(key, REVERSE, self.nonce()), REVERSE)
        elif state.status is Status.COMPENSATING:
            _resume(key)
        return {"key": key, "order": _on_record(found or transaction.gate.parameters["Item"])}

    def reverse_part(self, body: object, caller: Caller) -> dict[str, Any]:
        """Reverse a part of a settlement. Return the recorded part.

        Raises InvalidRequest, SettlementNotFound, NotReversible, PartRefused, ApprovalNeeded and the payee's
        refusals.
        """
        state, order = self.part_of(body, caller)
        self._ensure_one_is_enough(state, order)
        return self.carry_out_part(state, order, self.now())

    def part_of(self, body: object, caller: Caller, **more: str) -> tuple[SettlementState, PartialReversal]:
        state = self.state_of(key_of_part(body))
        exponent = state.settlement.exponent(self.config)
        return state, parse_part(body, caller, exponent, **more)[1]

    def carry_out_part(
        self, state: SettlementState, order: PartialReversal, now: datetime, completing: Write | None = None
    ) -> dict[str, Any]:
        """Reverse a part in one transaction, without an execution. A merchant is swept first."""
        store, settlement = self.store, state.settlement
        if refusal := parts.refusal_of(state):  # a release after this read is not swept
            raise refusal
        self.before_refund(store, state)
        writes = partial_reversal.reverse_part(settlement, order, now, self.config.row_layout)
        entry = store.record((*writes, completing) if completing else writes)
        amount = money.render(entry["amount"], settlement.exponent(self.config))
        told = _on_record(entry) | {"amount": amount, "currency": settlement.currency}
        return {"key": state.key, "part": order.part, "order": told}

    def is_on_record(self, state: SettlementState, order: approval.AnyOrder) -> bool:
        if isinstance(order, PartialReversal):
            return self.store.evidence(state.key, part_name(order.part)) is not None
        if isinstance(order, Resolution):
            return state.resolutions >= order.case
        return self.store.evidence(state.key, REVERSE) is not None

    def recover(self, body: object, caller: Caller) -> dict[str, Any]:
        """Have recovery resume a settlement. Raises InvalidRequest, SettlementNotFound, StartUnavailable.

        The order is not recorded: the schedule would do the same within minutes.
        """
        key = parse_recovery(body)
        if self.state_of(key).status in FINISHED:
            return {"key": key, "action": "none", "execution": None}
        return resumption.wait_for(key)

    def _ensure_one_is_enough(self, state: SettlementState, order: approval.AnyOrder) -> None:
        decision = approval.decision_of(order)
        persons = approval.needed(state, decision, self.config)
        if persons > 1 and not self.is_on_record(state, order):
            approval.ensure_fits(state, order)
            raise ApprovalNeeded(decision, persons)

    def _decide(
        self, state: SettlementState, order: Resolution, owner: str, now: datetime, completing: Write | None
    ) -> tuple[Row, bool]:
        compensation.ensure_can_resolve(state, order.decision, order.case)
        case, config = compensation.stuck_case(state), self.config
        transaction = compensation.resolve(state.settlement, case, order, owner, now, config)
        try:
            found: Row | None = self.store.commit(replace(transaction, proposal=completing))
        except AccountNotFound:  # the blocked account is gone
            case = replace(case, blocked_account=None)
            transaction = compensation.resolve(state.settlement, case, order, owner, now, config)
            found = self.store.commit(replace(transaction, proposal=completing))
        return found or dict(transaction.gate.parameters["Item"]), found is None

    def state_of(self, key: str) -> SettlementState:
        """The settlement's state. Raises SettlementNotFound.

        Raises MalformedRow if the row cannot carry a decision.
        """
        state = self.store.settlement(key)
        if state is None:
            raise SettlementNotFound("key: no request has claimed it")
        state.settlement.exponent(self.config)
        if state.status is Status.LIMBO:
            compensation.stuck_case(state)
        return state

    def _waiting(self, key: str, case: int) -> Row | None:
        row = self.store.read(keys.waiting(key))
        return row if row and row["case"] == case else None

    def _start(self, state: SettlementState, name: str, order: str) -> None:
        wire = state.settlement.to_wire(self.config)
        machine = step_functions.arn("COMPENSATION_MACHINE")
        step_functions.start(machine, name, {"settlement": wire, "order": order})


def _resume(key: str) -> None:
    """Have recovery resume a settlement without a running owner. If that fails, the schedule resumes it."""
    with suppress(StartUnavailable):
        resumption.wait_for(key)


def _on_record(entry: Row) -> dict[str, Any]:
    return {name: entry[name] for name in _ON_RECORD if name in entry}


def _told(entry: Row | None) -> str:
    """Omit the reason, a person's words. `settle status` shows it."""
    return f": {entry['decision']} at {entry['posted_at']}" if entry else ""
