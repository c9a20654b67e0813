"""Two persons' decisions about a case, and looks at a payout, sent to the orders' API."""

from collections.abc import Mapping
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.order import OrderRefused, check_order, give
from settle.payouts import case as cases
from settle.payouts.payout import shown, state_of
from settle.stack import Stack
from settlement.payouts import told
from settlement.payouts.decision import Verdict, parse_decision
from settlement.payouts.payout import State


def ask(stack: Stack, key: str) -> dict[str, Any]:
    """Have FollowPayouts look at a payout now; return it. Safe to repeat. Raises CommandFailed."""
    return give(stack, "ask-payout", {"key": key})


def propose(stack: Stack, order: Mapping[str, Any]) -> dict[str, Any]:
    """Propose a verdict; without `case` and `digest`, about the payout as it is read now. Safe to repeat.

    Returns what was shown, the proposal on record, and the other person's command. Raises CommandFailed.
    """
    state = _shown_state(stack, order)
    verdict = Verdict(order["verdict"])
    answer = give(stack, "propose-payout", _checked({**order, "case": state.cases, "digest": state.digest}))
    return {
        **shown(stack, state),
        "case": {"number": state.cases, "trouble": state.trouble, "digest": state.digest},
        "verdict": verdict.value,
        "proposed_by": answer.get("proposed_by"),
        "approve": cases.approval(stack, state, verdict),
    }


def approve(stack: Stack, order: Mapping[str, Any]) -> dict[str, Any]:
    """Approve another person's proposal about what `digest` names. Safe to repeat, even after its effect.

    `payout` is the payout afterwards; without it, `not_yet` says why it waits for FollowPayouts' next run.
    Raises CommandFailed.
    """
    given = _checked(order)
    if done := _done(stack, given):
        return done
    _shown_state(stack, given)
    try:
        return give(stack, "approve-payout", given)
    except OrderRefused:
        if done := _done(stack, given):  # by a call whose answer was lost
            return done
        raise


def _checked(order: Mapping[str, Any]) -> dict[str, Any]:
    check_order(lambda raw, _: parse_decision(raw), dict(order))
    return {**order, "reason": order["reason"].strip()}


def _shown_state(stack: Stack, order: Mapping[str, Any]) -> State:
    """Return the payout with an open case. Raises CommandFailed if it is not what the person was shown."""
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


def _done(stack: Stack, order: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the payout if this very decision was carried out."""
    state = state_of(stack, order["key"])
    last = state.decided or {}
    wanted = {"case": str(order["case"]), "digest": order["digest"], "verdict": order["verdict"]}
    if not wanted.items() <= last.items():
        return None
    return {
        "key": state.key,
        "case": order["case"],
        "verdict": order["verdict"],
        "approved_by": last.get("approved_by"),
        "payout": told.of_state(state, stack.config),
    }
