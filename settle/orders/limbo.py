from dataclasses import dataclass, replace
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.orders import proposal
from settle.orders.proposal import Proposals
from settle.placeholder import REASON
from settle.settlements import aside
from settle.settlements.aside import Line
from settle.settlements.index import listed
from settle.settlements.settlement import state_of
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.model import money
from settlement.core.model.case import Case
from settlement.core.model.errors import Refusal
from settlement.core.model.orders import Decision
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status, Step
from settlement.core.model.stored import MalformedRow
from settlement.core.policy import compensation
from settlement.orders import approval

FIELDS: tuple[str, ...] = (
    *("key", "case", "since", "account", "stuck_step", "amount_at_risk", "currency", "error"),
    *("proposed", "approvals"),
)


@dataclass(frozen=True)
class Which:
    """A filter of LIMBO cases by account, error, or both. By default, it admits all."""

    account: str | None = None
    error: str | None = None

    @property
    def options(self) -> dict[str, str | None]:
        return {"account": self.account, "all_of": self.error}

    def has(self, state: SettlementState) -> bool:
        return self.account in (None, compensation.stuck_case(state).account) and self.error in (
            None,
            (state.failure or {}).get("error"),
        )


def open_cases(stack: Stack, limit: int | None = None) -> tuple[list[Line], bool]:
    """Return the `limit` oldest open cases and the unreadable rows, and whether more exist."""
    found = open_states(stack, limit)
    return [*(summary(stack, state) for state in found.states), *found.unreadable], found.more


@dataclass(frozen=True)
class Open:
    """Open cases, oldest first. `more`: there are others.

    `unreadable`: malformed rows that the index lists in LIMBO. Every filter admits them. No decision applies
    to them.
    """

    states: list[SettlementState]
    more: bool
    unreadable: list[Line]


def open_states(stack: Stack, limit: int | None = None) -> Open:
    found, states = listed(stack, [keys.LIMBO], set(Status) - {Status.LIMBO}, limit), list[SettlementState]()
    unreadable = [aside.line(FIELDS, key, reason) for key, reason in found.unreadable]
    for row in found.rows:
        try:
            state = SettlementState.from_row(row)
            summary(stack, state)
            states.append(state)
        except MalformedRow as malformed:
            unreadable.append(aside.line(FIELDS, row, str(malformed), since=row.get("gsi1sk")))
    return Open(states, found.more, unreadable)


def chosen(stack: Stack, which: Which) -> Open:
    found = open_states(stack)
    return replace(found, states=[state for state in found.states if which.has(state)])


def lines(stack: Stack, found: Open) -> list[Line]:
    proposals = proposal.open_on_many(stack, found.states)
    told = [summary(stack, state) | _proposed(proposals, state.key) for state in found.states]
    return told + found.unreadable


def _proposed(found: Proposals, key: str) -> dict[str, Any]:
    one, unreadable = found.open.get(key), found.unreadable.get(key)
    told = {"proposed": one and one.decision, "approvals": one and proposal.approvals(one)}
    return told if unreadable is None else told | {aside.UNREADABLE: unreadable}


def show(stack: Stack, key: str) -> dict[str, Any]:
    """Return a settlement's open case with each decision. Raises CommandFailed if there is none."""
    state = state_of(stack, key)
    if state.status is not Status.LIMBO:
        raise CommandFailed(Exit.CONFLICT, f"{key}: is {state.status}, not in LIMBO")
    case = compensation.stuck_case(state)
    blocked = stack.store.account(case.account) if case.blocked_account else None
    return {
        **summary(stack, state),
        "available": _amount(stack, state, blocked.available) if blocked else None,
        "escrow": _amount(stack, state, state.escrow),
        "cause": (state.failure or {}).get("cause"),
        "reversed_for": state.reversed_for,
        "steps": sorted(state.steps),
        "reversed": sorted(state.reversed),
        **proposal.open_on(stack, state),
        "decisions": [_choice(stack, state, case, decision) for decision in Decision],
    }


def _choice(stack: Stack, state: SettlementState, case: Case, decision: Decision) -> dict[str, Any]:
    try:
        compensation.ensure_can_resolve(state, decision)
    except Refusal as refusal:
        return {"decision": decision.value, "effect": f"not possible: {refusal}", "command": None}
    persons = approval.needed(state, decision, stack.config)
    verb = "resolve" if persons == 1 else "propose"
    command = stack.command(f"limbo {verb}", state.key, decision, case=case.number, reason=REASON)
    return {
        "decision": decision.value,
        "effect": _effect(stack, state, case, decision),
        "command": command,
    }


def summary(stack: Stack, state: SettlementState) -> dict[str, Any]:
    case = compensation.stuck_case(state)
    return {
        "key": state.key,
        "case": case.number,
        "since": state.listed_at,
        "account": case.account,
        "stuck_step": state.stuck_step,
        "amount_at_risk": _amount(stack, state, case.amount),
        "currency": state.settlement.currency,
        "error": (state.failure or {}).get("error"),
    }


def _effect(stack: Stack, state: SettlementState, case: Case, decision: Decision) -> str:
    settlement = state.settlement
    stuck, currency = _amount(stack, state, case.amount), settlement.currency
    amount, held = _amount(stack, state, settlement.amount), _amount(stack, state, state.escrow)
    if decision is Decision.RETRY and case.step is Step.HOLD:
        return f"returns {stuck} {currency} from the escrow to {case.account}, once the cause is gone"
    if decision is Decision.RETRY:
        return f"takes {stuck} {currency} out of {case.account} once the cause is gone, and reverses the rest"
    if decision is Decision.WRITE_OFF:
        return (
            f"covers {stuck} {currency} from losses:{currency}, and refunds {amount} {currency} to"
            f" {settlement.payer}; {case.account} keeps what it has"
        )
    return f"the payee {settlement.payee} keeps what it received, {held} {currency} go to the fees: SETTLED"


def _amount(stack: Stack, state: SettlementState, minor: int) -> str:
    return money.render(minor, state.settlement.exponent(stack.config))
