"""Decisions that need more than one person, sent to the orders' API."""

from collections.abc import Mapping
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.order import check_order, give
from settle.orders import proposal as proposals
from settle.orders import resolution, reversal
from settle.orders.resolution import ensure_shown, still
from settle.settlements.follow import follow, is_at_rest
from settle.settlements.settlement import state_of
from settle.stack import Stack
from settlement.core.model.orders import REVERSE, Decision
from settlement.core.model.status import Status
from settlement.core.policy import outcome
from settlement.orders.proposal import Move
from settlement.orders.requests import parse_named, parse_resolution, parse_reversal, parse_shown


def propose(
    stack: Stack, key: str, decision: Decision | None, reason: str, case: int | None = None
) -> dict[str, Any]:
    """Propose a decision. If `decision` is None, propose a reversal. Safe to repeat."""
    name, order = _order(stack, Move.PROPOSE, key, decision, reason, case)
    return proposed(stack, key, give(stack, f"{name}/{Move.PROPOSE}", order))


def proposed(stack: Stack, key: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the proposal made. Raises CommandFailed if a later proposal replaced it."""
    told = latest(stack, key)
    if told["digest"] != answer["proposal"]["digest"]:
        raise CommandFailed(
            Exit.CONFLICT,
            f"{key}: what you proposed is no longer the latest proposal;"
            f" look at it with `{stack.command('status', key)}`",
        )
    return told


def approve(stack: Stack, key: str, shown: Mapping[str, Any]) -> dict[str, Any]:
    """Approve a proposal. Return the outcome, or the proposal if it needs more approvals.

    The orders' API compares the proposal with the values in `shown`. Safe to repeat.
    """
    names = ("decision", "case", "part", "amount", "digest")
    answer = _move(stack, Move.APPROVE, key, {name: shown[name] for name in names if name in shown})
    return _followed(stack, key) if "order" in answer else latest(stack, key)


def withdraw(stack: Stack, key: str, shown: Mapping[str, Any]) -> dict[str, Any]:
    """Withdraw a proposal. Safe to repeat."""
    _move(stack, Move.WITHDRAW, key, {name: shown[name] for name in ("decision", "digest")})
    return {"key": key, "withdrawn": shown["decision"], "digest": shown["digest"]}


def _move(stack: Stack, move: Move, key: str, named: Mapping[str, Any]) -> dict[str, Any]:
    decision, order = named["decision"], {"key": key, **named}
    parse = parse_shown if move is Move.APPROVE else parse_named
    check_order(lambda raw, _: parse(raw, decision), order)
    return give(stack, f"{decision}/{move}", order)


def break_glass(
    stack: Stack, key: str, decision: Decision | None, reason: str, case: int | None = None
) -> dict[str, Any]:
    """Decide without approval, and page everybody. Safe to repeat."""
    name, order = _order(stack, Move.BREAK_GLASS, key, decision, reason, case)
    give(stack, f"{name}/{Move.BREAK_GLASS}", order)
    return _followed(stack, key)


def _order(
    stack: Stack, move: Move, key: str, decision: Decision | None, reason: str, case: int | None
) -> tuple[str, dict[str, Any]]:
    if decision is None:
        order: dict[str, Any] = {"key": key, "reason": reason}
        check_order(parse_reversal, order)
        status = state_of(stack, key).status
        if move is Move.BREAK_GLASS and reversal.is_on_record(stack, key, reason):
            status = Status.SETTLED  # repeat it on its route: the person may lack others
        if status not in (Status.SETTLED, Status.PROCESSING):
            raise CommandFailed(Exit.CONFLICT, f"{key}: is {status} and cannot be reversed")
        return REVERSE, order | {"expected_status": status, "reason": reason.strip()}
    order = {"key": key, "case": 1 if case is None else case, "decision": decision, "reason": reason}
    check_order(parse_resolution, order)
    state = state_of(stack, key)
    if case is None and state.status is not Status.LIMBO:
        if move is Move.BREAK_GLASS and resolution.is_on_record(stack, state, decision, reason):
            return decision, order | {"case": state.resolutions, "reason": reason.strip()}
        raise CommandFailed(Exit.CONFLICT, f"{key}: is {state.status}, not in LIMBO")
    if case is None:
        if move is Move.BREAK_GLASS:
            ensure_shown(stack, state, "limbo resolve", decision, break_glass=True)
        ensure_shown(stack, state, f"limbo {move}", decision)
    return decision, order | {"case": case or state.case_number, "reason": reason.strip()}


def latest(stack: Stack, key: str) -> dict[str, Any]:
    """Describe the latest proposal, with its command. Raises CommandFailed."""
    found = proposals.latest(stack, key)
    if found is None:
        raise CommandFailed(Exit.FAILED, f"{key}: its proposal is gone")
    return {"key": key, **proposals.told(stack, state_of(stack, key), found)}


def _followed(stack: Stack, key: str) -> dict[str, Any]:
    state = follow(stack, key, is_at_rest)
    if not is_at_rest(state):
        raise still(stack, state)
    return outcome.of_state(state, stack.config, replayed=False)
