"""A function's input, drawn by a fuzzer and stored as text."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.fuzz import claims, payloads, wires
from tests.fuzz.mutation import Choices
from tests.fuzz.stage import ANSWERS, HANDLERS, STATES, TIMES, Stage, rows_of
from tests.world.rooms import there

FUNCTIONS = tuple(name for name in payloads.PAYLOADS if name in HANDLERS)

AT_HOME: dict[str, str | tuple[str, ...]] = {
    "hold_funds": ("unclaimed", "claimed"),
    "verify_kyc": "held",
    "release_funds": "verified",
    "collect_fee": "released",
    "reject_settlement": ("unclaimed", "claimed"),
    "refund_fee": "compensating",
    "reclaim_funds": "compensating",
    "void_hold": "compensating",
    "enter_limbo": "compensating",
    **dict.fromkeys(("prepare_alert", "await_resolution", "resolve_limbo"), "LIMBO"),
    "take_order": ("LIMBO", "settled", "released"),
    "kyc_decided": "in review",
    "check_decided": ("held, with checks", "held, in wait"),
}
"""Prefixes of states where a function gets furthest; half its cases begin there."""


@dataclass(frozen=True)
class Case:
    """The input `text`, the key's `state`, and indices into TIMES and ANSWERS."""

    function: str
    state: str
    text: str
    at: int = 0
    answer: int = 0
    anyhow: bool = False


def draw(function: str, choices: Choices, anyhow: bool = False) -> Case:
    """Draw a case; with `anyhow`, its payload fits no definition."""
    home = [name for name in STATES if name.startswith(AT_HOME.get(function, ""))]
    names = home if choices.below(2) else list(STATES)
    state = names[choices.below(len(names))]
    at, answer = choices.below(len(TIMES)), choices.below(len(ANSWERS))
    make: Callable[[Choices], Any] | None = _WIRES.get(function)
    if make:
        at, drawn = 0, make(choices)
    else:
        drawn = (payloads.anyhow if anyhow else payloads.hostile)(function, choices)
    return Case(function, state, json.dumps(drawn), at, answer, anyhow)


def run(stage: Stage, case: Case) -> str:
    """Run a case; return how it ended. Raises an error for a broken claim."""
    stage.set(rows_of(case.state), TIMES[case.at], ANSWERS[case.answer])
    if case.function in _WIRES:
        return str(_CHECKS[case.function](stage, json.loads(case.text)))
    check_one = claims.check_not_written_by_a_fault if case.anyhow else claims.check
    return check_one(stage, case.function, claims.read(case.text))


_WIRES: dict[str, Callable[[Choices], Any]] = {
    "kyc_decided": wires.request,
    **dict(there("checks", ("check_decided", wires.callback))),
    "start_settlements": wires.batch,
    "take_order": wires.order,
    "accept_settlements": wires.post,
    "cancel_settlement": wires.cancel,
    "read_settlements": wires.reading,
}
_CHECKS: dict[str, Callable[[Stage, Any], Any]] = {
    "kyc_decided": claims.check_webhook,
    "check_decided": claims.check_callback,
    "start_settlements": claims.check_batch,
    "take_order": claims.check_order,
    "accept_settlements": claims.check_post,
    "cancel_settlement": claims.check_cancel,
    "read_settlements": claims.check_reading,
}
