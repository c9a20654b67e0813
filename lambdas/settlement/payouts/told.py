"""Descriptions of a payout for callers and people, without its bank account."""

from collections.abc import Mapping
from typing import Any

from settlement.core.model import money
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.stored import exponent_of
from settlement.core.policy.outcome import Action
from settlement.payouts import decision
from settlement.payouts.payout import State, Status

_TIMES = ("reserved_at", "first_sent_at", "sent_at", "said_at", "paid_at", "ended_at")
_TEXTS = ("said", "detail", "trouble", "debit_line", "return_line")

_DECIDED = ("case", "verdict")
"""Shown attributes of a decision. Only the row has its persons and reasons."""

_UNDER_WAY = (Action.SAME_KEY, "The payout is under way: ask again with the same key.")
_NEXT: Mapping[Status, tuple[Action, str]] = {
    **dict.fromkeys(Status, _UNDER_WAY),
    Status.PAID: (Action.NOTHING, "The bank has paid. The payout may still come back."),
    Status.CONFIRMED: (Action.NOTHING, "The payout is on the bank's statement. It may still come back."),
    Status.REFUSED: (
        Action.NEW_KEY,
        "The customer has the money back, and this key never pays: to pay after all, use a new key.",
    ),
    Status.RETURNED: (
        Action.NEW_KEY,
        "The payout came back, and this key never pays any more: to pay after all, use a new key.",
    ),
    Status.LIMBO: (
        Action.SAME_KEY,
        "Nobody knows whether the payout was paid, and two persons decide: ask again with the same key.",
    ),
}


def of_state(state: State, config: StageConfig) -> dict[str, Any]:
    """Describe a payout. Raises MalformedRow if the stage lacks the currency."""
    payout = state.payout
    exponent = exponent_of(f"PAYOUT#{state.key}", payout.currency, config)
    action, reason = _NEXT[state.status]
    case = {
        "case": {
            "number": state.cases,
            "trouble": state.trouble,
            "digest": state.digest,
            "verdicts": [verdict.value for verdict in decision.verdicts(state)],
        }
    }
    return {
        "key": state.key,
        "status": state.status.value,
        "account": payout.account,
        "amount": money.render(payout.amount, exponent),
        "currency": payout.currency,
        "destination": payout.destination,
        "reference": payout.reference,
        "attempts": state.attempts,
        "next": {"action": action.value, "reason": reason},
        **{name: value for name in (*_TIMES, *_TEXTS) if (value := getattr(state, name)) is not None},
        **(case if state.trouble else {}),
        **({"decided": {name: state.decided[name] for name in _DECIDED}} if state.decided else {}),
    }


def of_event(state: State, config: StageConfig) -> dict[str, Any]:
    """Describe a payout for an event, without decision and digest: the digest covers the bank account.

    Services of other teams may read events. Raises MalformedRow.
    """
    found = of_state(state, config)
    found.pop("decided", None)
    if "case" in found:
        found["case"] = {name: value for name, value in found["case"].items() if name != "digest"}
    return found
