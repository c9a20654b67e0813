"""Loads the state machines' definitions, with states' names in place of their functions."""

import json
import re
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from settlement.core.policy.compensation import CUT_OFF

STATE_MACHINES = Path(__file__).parents[2] / "statemachines"
EXPRESS, STANDARD, COMPENSATION = "SettlementExpress", "SettlementStandard", "Compensation"
BOTH = [EXPRESS, STANDARD]


@cache
def definitions() -> dict[str, Any]:
    """Return all definitions. Tests share them and must not change them."""
    return {
        EXPRESS: _definition("settlement", ""),
        STANDARD: _definition("settlement", ".sync:2"),
        COMPENSATION: _definition("compensation", ""),
    }


@cache
def stalling() -> dict[str, Any]:
    """Return the definitions of a stage with checks, where a payment without a KYC answer stalls."""
    found = deepcopy(definitions())
    for machine in BOTH:
        for catch in found[machine]["States"]["VerifyKyc"]["Catch"]:
            catch["ErrorEquals"] = [error for error in catch["ErrorEquals"] if error not in CUT_OFF]
    return found


def named(text: str, how: str = "") -> Any:
    """Return a definition with names for its placeholders. `how` is the suffix of startExecution, if any."""
    texts = {"StartCompensation": f"arn:aws:states:::states:startExecution{how}"}
    return json.loads(re.sub(r"\$\{(\w+)\}", lambda match: texts.get(match[1], match[1]), text))


def _definition(name: str, how: str) -> Any:
    return named((STATE_MACHINES / f"{name}.asl.json").read_text(), how)
