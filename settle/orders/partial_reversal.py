from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.order import check_order, give
from settle.orders import proposing as proposal
from settle.settlements.settlement import state_of
from settle.stack import Stack
from settlement.core.policy import outcome
from settlement.orders.proposal import Move
from settlement.orders.requests import REVERSE_PART, PartialReversal, parse_part, part_name


def next_part(stack: Stack, key: str, amount: str, reason: str) -> int:
    """Return the number of a payment's next reversal in part.

    Raises CommandFailed if an earlier part has the same `amount` and `reason`. This call may then be a repeat
    after a lost answer.
    """
    number = state_of(stack, key).next_part
    wanted = _parsed(stack, key, amount, reason, number)
    for earlier in range(1, number):
        made = stack.store.evidence(key, part_name(earlier))
        if made and (made["amount"], made["reason"]) == (wanted.amount, wanted.reason):
            raise CommandFailed(
                Exit.CONFLICT,
                f"part: part {earlier} of {key} gave back {amount} for this reason, at {made['posted_at']};"
                f" to repeat it: --part {earlier}; to give back as much again: --part {number}",
            )
    return number


def reverse_part(stack: Stack, key: str, amount: str, reason: str, part: int) -> dict[str, Any]:
    """Reverse a part of a payment. Safe to repeat with the same `part`."""
    return _given(stack, REVERSE_PART, _order(stack, key, amount, reason, part))


def propose(stack: Stack, key: str, amount: str, reason: str, part: int) -> dict[str, Any]:
    """Propose a reversal in part. Safe to repeat with the same `part`."""
    answer = give(stack, f"{REVERSE_PART}/{Move.PROPOSE}", _order(stack, key, amount, reason, part))
    return proposal.proposed(stack, key, answer)


def break_glass(stack: Stack, key: str, amount: str, reason: str, part: int) -> dict[str, Any]:
    """Reverse a part without approval, and page everybody. Safe to repeat with the same `part`."""
    return _given(stack, f"{REVERSE_PART}/{Move.BREAK_GLASS}", _order(stack, key, amount, reason, part))


def _order(stack: Stack, key: str, amount: str, reason: str, part: int) -> dict[str, Any]:
    _parsed(stack, key, amount, reason, part)
    return {"key": key, "part": part, "amount": amount, "reason": reason.strip()}


def _parsed(stack: Stack, key: str, amount: str, reason: str, part: int) -> PartialReversal:
    state = state_of(stack, key)
    order = {"key": key, "part": part, "amount": amount, "reason": reason.strip()}
    exponent = state.settlement.exponent(stack.config)
    found: PartialReversal = check_order(parse_part, order, exponent)[1]
    return found


def _given(stack: Stack, route: str, order: dict[str, Any]) -> dict[str, Any]:
    give(stack, route, order)
    return outcome.of_state(state_of(stack, order["key"]), stack.config, replayed=False)
