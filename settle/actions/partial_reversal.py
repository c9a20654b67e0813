"""The reversal of a part of a settlement, on a person's order."""

from typing import Any

from settle.actions.order import check_order, give
from settle.queries.settlement import state_of
from settle.stack import Stack
from settlement.model.orders import REVERSE_PART, parse_part
from settlement.policy import outcome


def next_part(stack: Stack, key: str) -> int:
    """Return the number of the next part of a settlement."""
    return state_of(stack, key).next_part


def reverse_part(stack: Stack, key: str, amount: str, reason: str, part: int) -> dict[str, Any]:
    """Give the payer an amount of what was released; return the outcome. Safe to repeat with its number."""
    state = state_of(stack, key)
    order = {"key": key, "part": part, "amount": amount, "reason": reason.strip()}
    check_order(parse_part, order, stack.config.currencies[state.settlement.currency])
    give(stack, REVERSE_PART, order)
    return outcome.of_state(state_of(stack, key), stack.config, replayed=False)
