from typing import Any

from settle.exit_codes import Exit
from settle.order import give
from settle.settlements.awaited import decider
from settle.settlements.settlement import state_of
from settle.stack import Stack
from settlement.core.model.state import SettlementState
from settlement.core.model.status import FINISHED, Status
from settlement.orders.requests import RECOVER

NOTHING = "none"
"""The action if none is needed."""


def recover(stack: Stack, key: str) -> tuple[dict[str, Any], str | None]:
    """Recover a settlement. Return the action and new status, and the reason for no action.

    Safe to repeat: nothing starts while a reversal runs, and a payment's second execution does no harm.
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
    by_status = Exit.of_status(result["status"])
    return by_status if result["action"] == NOTHING or by_status is Exit.LIMBO else Exit.FINE


def _why_not(stack: Stack, state: SettlementState) -> str:
    key = state.key
    if state.status in FINISHED:
        return f"{key} is {state.status}: there is nothing to recover"
    if state.status is Status.LIMBO:
        show = stack.command("limbo show", key)
        return f"{key} waits for a person's decision, and so does its execution; see `{show}`"
    if state.status is Status.PROCESSING and state.is_in_review:
        return f"{key} is in review until {state.deadline_at}, unless {decider(state.review)} decides before"
    return f"{key} needs no recovery: its execution {state.owner} runs"
