from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.order import check_order, give
from settle.orders.resolution import still
from settle.settlements import recovery
from settle.settlements.follow import follow
from settle.settlements.settlement import state_of
from settle.stack import Stack
from settlement.core.model.orders import REVERSE
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status
from settlement.core.policy import outcome
from settlement.orders.requests import parse_reversal


def reverse(stack: Stack, key: str, reason: str) -> dict[str, Any]:
    """Reverse a payment in full, fee included. Return the outcome. Raises CommandFailed.

    A repeat resumes a begun reversal, if no execution runs it.
    """
    check_order(parse_reversal, {"key": key, "reason": reason})
    state = state_of(stack, key)
    expected = state.status
    if expected is Status.REJECTED or _is_completed(state):
        why = "a person decided to complete it" if _is_completed(state) else "nothing was ever held"
        raise CommandFailed(Exit.CONFLICT, f"{key}: is {expected} and cannot be reversed: {why}")
    if expected in (Status.SETTLED, Status.PROCESSING):
        give(stack, REVERSE, {"key": key, "expected_status": expected, "reason": reason.strip()})
    elif expected is Status.COMPENSATING:
        recovery.recover(stack, key)
    ends = {Status.COMPENSATED, Status.REJECTED, Status.LIMBO, Status.SETTLED} - {expected}

    def is_done(state: SettlementState) -> bool:
        return _is_completed(state) or state.status in ends | {Status.COMPENSATED, Status.LIMBO}

    state = follow(stack, key, is_done)
    if not is_done(state):
        raise still(stack, state)
    if state.status in (Status.SETTLED, Status.REJECTED):
        raise CommandFailed(
            Exit.CONFLICT,
            f"{key}: became {state.status} while this command ran, and was not reversed;"
            f" see `{stack.command('status', key)}`",
        )
    return outcome.of_state(state, stack.config, replayed=False)


def is_on_record(stack: Stack, key: str, reason: str) -> bool:
    order = stack.store.evidence(key, "reverse")
    return order is not None and order["reason"] == reason.strip()


def _is_completed(state: SettlementState) -> bool:
    return state.status is Status.SETTLED and state.resolution is not None
