"""The outcome of a settlement: the output of the state machines and of `settle status`."""

import json
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any

from settlement.core.model import money
from settlement.core.model.orders import REVERSAL_REQUESTED
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import CANCELLED, SettlementState
from settlement.core.model.status import Status, Step

ERROR_LENGTH_MAX, CAUSE_LENGTH_MAX = 100, 500
"""Maximum characters of an error and a cause. They limit an outcome's size."""


class Action(StrEnum):
    """What a caller should do next. A program may follow it: no action pays a second time."""

    NOTHING = "nothing"
    SAME_KEY = "same_key"
    """The payment may still settle. Repeat with this key, or wait for the event."""

    NEW_KEY = "new_key"
    """This key never pays. To pay after all, use a new key."""


def next_action(state: SettlementState) -> dict[str, str]:
    """The caller's action, and the reason in words.

    Only this function decides whether a program may send a payment again. The program may not if a person
    reversed the payment, even in part, or if the payee keeps a release that losses paid.
    """
    action, reason = _NEXT[state.status]
    error = (state.failure or {}).get("error")
    if action is Action.NEW_KEY and error == CANCELLED:
        reason = _CANCELLED
    if state.status is Status.COMPENSATED and Step.RELEASE in state.covered:
        action, reason = Action.NOTHING, _COVERED
    elif state.status is Status.COMPENSATED and error == REVERSAL_REQUESTED:
        action, reason = Action.NOTHING, _REVERSED_BY_A_PERSON
    elif state.status is Status.SETTLED and state.parts:
        reason = _GIVEN_BACK if state.is_given_back else _GIVEN_BACK_IN_PART
    return {"action": action.value, "reason": reason}


_NEXT: dict[Status, tuple[Action, str]] = {
    Status.PROCESSING: (
        Action.SAME_KEY,
        "The payment is in flight: ask again with the same key, or wait for its event.",
    ),
    Status.SETTLED: (Action.NOTHING, "The payee is paid."),
    Status.REJECTED: (
        Action.NEW_KEY,
        "The payment was refused before anything was held, and this key never pays any more:"
        " to pay after all, first mend what failure says, then use a new key.",
    ),
    Status.COMPENSATING: (
        Action.SAME_KEY,
        "The payment is being reversed, which may still end otherwise:"
        " ask again with the same key, or wait for its event.",
    ),
    Status.COMPENSATED: (
        Action.NEW_KEY,
        "The payer has everything back, and this key never pays any more:"
        " to pay after all, first mend what failure says, then use a new key.",
    ),
    Status.LIMBO: (
        Action.SAME_KEY,
        "The reversal is stuck, and a person decides, who may let the payment stand:"
        " ask again with the same key, or wait for its event.",
    ),
}
_CANCELLED = (
    "Its starter has cancelled the payment, and this key never pays any more:"
    " to pay after all, use a new key."
)
_COVERED = (
    "The payer has everything back, and the payee keeps the release: the losses have covered it."
    " To pay again would pay the payee twice."
)
_GIVEN_BACK_IN_PART = "The payee is paid, and a part of it was given back."
_GIVEN_BACK = (
    "The payee was paid, and has given all of it back in parts:"
    " to pay after all, a person decides that, and it takes a new key."
)
_REVERSED_BY_A_PERSON = (
    "A person has reversed the payment, and the payer has everything back:"
    " to pay after all, a person decides that, and it takes a new key."
)


def of_state(state: SettlementState, config: StageConfig, *, replayed: bool) -> dict[str, Any]:
    """Return a settlement's outcome. `replayed`: this call did not run the settlement.

    Raises MalformedRow if the stage does not accept the settlement's currency.
    """
    settlement, exponent = state.settlement, state.settlement.exponent(config)
    parts = {"reversed_in_part": money.render(state.reversed_in_part, exponent)} if state.parts else {}
    return {
        "key": settlement.key,
        "status": state.status.value,
        "payer": settlement.payer,
        "payee": settlement.payee,
        "amount": money.render(settlement.amount, exponent),
        "fee": money.render(settlement.fee, exponent),
        "currency": settlement.currency,
        "escrow": money.render(state.escrow, exponent),
        "steps": [step.value for step in Step if step in state.steps],
        "reversed": sorted(state.reversed),
        "failure": state.failure,
        "next": next_action(state),
        "replayed": replayed,
        "claimed_at": state.claimed_at,
        "finished_at": state.finished_at,
        **({"covered": sorted(state.covered)} if state.covered else {}),
        **parts,
        **settlement.labels,
    }


def of_settled(
    settlement: Settlement, config: StageConfig, *, claimed_at: str, finished_at: str
) -> dict[str, Any]:
    """The outcome of the fee's transaction, without reading the row."""
    settled = SettlementState(
        settlement=settlement,
        request_hash=settlement.request_hash,
        status=Status.SETTLED,
        steps=dict.fromkeys(Step, finished_at),
        escrow=0,
        claimed_at=claimed_at,
        finished_at=finished_at,
        owner="",  # like the deadline, not part of an outcome
        owner_epoch=0,
        deadline_at="",
    )
    return of_state(settled, config, replayed=False)


def failure(step: str, error: Mapping[str, str]) -> dict[str, str]:
    """Parse a state machine's error. A Lambda cause is JSON with the exception's message."""
    cause = error.get("Cause", "")
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        cause = json.loads(cause)["errorMessage"]
    return {
        "step": step,
        "error": _text(error["Error"])[:ERROR_LENGTH_MAX],
        "cause": _text(cause)[:CAUSE_LENGTH_MAX],
    }


def _text(value: object) -> str:
    """Replace lone surrogates, which cannot be stored."""
    try:
        text = str(value)
    except RecursionError:
        text = f"a {type(value).__name__} that is nested too deep"
    return text.encode("utf-8", "replace").decode()
