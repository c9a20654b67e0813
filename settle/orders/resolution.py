from collections.abc import Mapping
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.order import check_order, give
from settle.placeholder import REASON
from settle.settlements.follow import follow, is_at_rest
from settle.settlements.settlement import state_of
from settle.stack import Stack
from settlement.core.model.errors import Refusal
from settlement.core.model.orders import Decision, order_name
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status
from settlement.core.policy import compensation, outcome
from settlement.orders.requests import parse_resolution


def resolve(
    stack: Stack, key: str, decision: Decision, reason: str, case: int | None = None
) -> dict[str, Any]:
    """Decide a case, and return the outcome. Safe to repeat: a decided case is resumed. Raises CommandFailed.

    From the second case, `case` is required. Without it, a repeat could decide a newer case.
    """
    order = {"key": key, "case": 1 if case is None else case, "decision": decision, "reason": reason}
    check_order(parse_resolution, order)
    state = state_of(stack, key)
    decided, in_limbo = state.resolutions, state.status is Status.LIMBO
    number = case or decided + in_limbo
    if not 0 < number <= decided + in_limbo:
        lacking = f"and has no case {number}" if case else "not in LIMBO"
        raise CommandFailed(Exit.CONFLICT, f"{key}: is {state.status}, {lacking}")
    order |= {"case": number, "reason": reason.strip()}
    if number > decided:
        if case is None:
            _refuse_repeated(stack, key, order)
            ensure_shown(stack, state, "limbo resolve", decision)
        try:
            compensation.ensure_can_resolve(state, decision)
        except Refusal as refusal:
            raise CommandFailed(Exit.CONFLICT, f"{key}: {refusal}") from refusal
    else:
        _ensure_decided(stack, key, order)
    give(stack, decision, order)  # for a decided case, wakes the execution if needed

    def is_done(state: SettlementState) -> bool:
        return is_at_rest(state) and state.resolutions >= number

    state = follow(stack, key, is_done)
    if not is_done(state):
        raise still(stack, state)
    _ensure_decided(stack, key, order)
    return outcome.of_state(state, stack.config, replayed=False)


def is_on_record(stack: Stack, state: SettlementState, decision: Decision, reason: str) -> bool:
    made = stack.store.evidence(state.key, order_name(state.resolutions))
    return made is not None and _is(made, {"decision": decision, "reason": reason.strip()})


def ensure_shown(
    stack: Stack, state: SettlementState, verb: str, decision: Decision, **options: object
) -> None:
    """Raise CommandFailed from the second case, as a command without `case` may mean an earlier one."""
    if state.case_number > 1:
        show = stack.command("limbo show", state.key)
        decide = stack.command(verb, state.key, decision, **options, case=state.case_number, reason=REASON)
        raise CommandFailed(
            Exit.CONFLICT,
            f"case: {state.key} is stuck again, as case {state.case_number}; look at it with"
            f" `{show}`, then decide with `{decide}`",
        )


def still(stack: Stack, state: SettlementState) -> CommandFailed:
    return CommandFailed(
        Exit.FAILED,
        f"{state.key}: is still {state.status}; look at it with `{stack.command('status', state.key)}`,"
        " then repeat this command",
    )


def _ensure_decided(stack: Stack, key: str, wanted: dict[str, Any]) -> None:
    made = stack.store.evidence(key, order_name(wanted["case"]))
    if made is None:
        raise CommandFailed(
            Exit.FAILED, f"{key}: case {wanted['case']} is not decided yet; repeat this command"
        )
    if not _is(made, wanted):
        raise CommandFailed(
            Exit.CONFLICT,
            f"{key}: case {wanted['case']} was resolved by {made['decision']} at {made['posted_at']}:"
            f" {made['reason']} ({made['by']})",
        )


def _refuse_repeated(stack: Stack, key: str, wanted: dict[str, Any]) -> None:
    number = wanted["case"]
    before = stack.store.evidence(key, order_name(number - 1))
    if before is not None and _is(before, wanted):
        raise CommandFailed(
            Exit.LIMBO,
            f"{key}: that was carried out as case {number - 1}, and it is stuck again as case {number};"
            f" look at it with `{stack.command('limbo show', key)}`, then decide with --case {number}",
        )


def _is(made: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return (made["decision"], made["reason"]) == (wanted["decision"], wanted["reason"])
