"""Asks the orders' API for looks at a payout, and for two persons' decisions about a case."""

from collections.abc import Mapping
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.order import check_order, give
from settle.payouts import case as cases
from settle.payouts.payout import shown, state_of
from settle.stack import Stack
from settlement.payouts.decision import parse_decision
from settlement.payouts.payout import State


def ask(stack: Stack, key: str) -> dict[str, Any]:
    """Have FollowPayouts look at a payout now; return it. Safe to repeat. Raises CommandFailed."""
    return give(stack, "ask-payout", {"key": key})


def propose(stack: Stack, order: Mapping[str, Any]) -> dict[str, Any]:
    """Propose a verdict about a payout. Safe to repeat. Raises CommandFailed.

    Without `case` and `digest`, it is about the payout as read now. Returns this payout, the proposal on
    record, and the other person's command.
    """
    state = _shown_state(stack, order)
    answer = give(stack, "propose-payout", _checked({**order, "case": state.cases, "digest": state.digest}))
    return {
        **shown(stack, state),
        "case": {"number": state.cases, "trouble": state.trouble, "digest": state.digest},
        "verdict": str(order["verdict"]),
        "proposed_by": answer.get("proposed_by"),
        "approve": cases.approval(stack, state, order),
    }


def approve(stack: Stack, order: Mapping[str, Any]) -> dict[str, Any]:
    """Approve another person's proposal with this `digest`. Safe to repeat, even after its effect.

    The stage compares the payout with the shown state. The answer has the resulting `payout`, or in `not_yet`
    the reason why the verdict waits for FollowPayouts' next run. Raises CommandFailed.
    """
    return give(stack, "approve-payout", _checked(order))


def _checked(order: Mapping[str, Any]) -> dict[str, Any]:
    check_order(lambda raw, _: parse_decision(raw), dict(order))
    return {**order, "reason": order["reason"].strip()}


def _shown_state(stack: Stack, order: Mapping[str, Any]) -> State:
    """Return an order's payout. Raises CommandFailed if it has changed since the person saw it."""
    key, case, digest = (order.get(name) for name in ("key", "case", "digest"))
    state = state_of(stack, order["key"])
    look = f"look at `{stack.command('payout status', state.key)}`"
    if state.trouble is None:
        raise CommandFailed(Exit.CONFLICT, f"key: {key} is {state.status} and has no open case; {look}")
    if case not in (None, state.cases):
        raise CommandFailed(Exit.CONFLICT, f"case: the open one of {key} is {state.cases}; {look}")
    if digest not in (None, state.digest):
        raise CommandFailed(Exit.CONFLICT, f"digest: {key} is no longer what you were shown; {look}")
    return state
