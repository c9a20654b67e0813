"""Recovery of one settlement now, ordered through the stack's door."""

from typing import Any

from settle.exit_codes import Exit
from settle.order import give
from settle.settlements.settlement import state_of
from settle.stack import Stack
from settlement.core.model.state import SettlementState
from settlement.core.model.status import FINISHED, Status
from settlement.orders.requests import RECOVER

NOTHING = "none"
"""The function's answer for a settlement that needs no action."""


def recover(stack: Stack, key: str) -> tuple[dict[str, Any], str | None]:
    """Have recovery take a settlement over; return the action and the status after it, and why there is none.

    Safe to repeat: while a reversal runs, recovery starts nothing; a payment it resumes at once, as two
    executions do it no harm. A finished settlement is not asked about.
    """
    state = state_of(stack, key)
    done = (
        {"action": NOTHING, "execution": None}
        if state.status in FINISHED
        else give(stack, RECOVER, {"key": key})
    )
    state, action = state_of(stack, key), done["action"]
    result = {"key": key, "status": state.status.value, "action": action, "execution": done["execution"]}
    return result, _why_not(stack, state) if action == NOTHING else None


def recover_code(result: dict[str, Any]) -> Exit:
    """Return the exit code: 0 if recovery started an execution, else by the status; LIMBO stays LIMBO."""
    by_status = Exit.of_status(result["status"])
    return by_status if result["action"] == NOTHING or by_status is Exit.LIMBO else Exit.FINE


def _why_not(stack: Stack, state: SettlementState) -> str:
    """Return why there was nothing to do."""
    key = state.key
    if state.status in FINISHED:
        return f"{key} is {state.status}: there is nothing to recover"
    if state.status is Status.LIMBO:
        show = stack.command("limbo show", key)
        return f"{key} waits for a person's decision, and so does its execution; see `{show}`"
    if state.status is Status.PROCESSING and state.is_in_review:
        return f"{key} is in review until {state.deadline_at}, unless the provider decides before"
    return f"{key} needs no recovery: its execution {state.owner} runs"
