"""The machines' definitions as they are deployed, with the states' names in the place of their functions."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

STATE_MACHINES = Path(__file__).parents[2] / "statemachines"
EXPRESS, STANDARD, COMPENSATION = "SettlementExpress", "SettlementStandard", "Compensation"
BOTH = [EXPRESS, STANDARD]
"""The two machines that settle."""


@cache
def definitions() -> dict[str, Any]:
    """Return each machine's definition. They are shared: no test may change one."""
    return {
        EXPRESS: _definition("settlement", ""),
        STANDARD: _definition("settlement", ".sync:2"),
        COMPENSATION: _definition("compensation", ""),
    }


def named(text: str, how: str = "") -> Any:
    """Return a definition with its placeholders replaced; `how` is the way in which it starts another."""
    texts = {"StartCompensation": f"arn:aws:states:::states:startExecution{how}"}
    return json.loads(re.sub(r"\$\{(\w+)\}", lambda match: texts.get(match[1], match[1]), text))


def _definition(name: str, how: str) -> Any:
    return named((STATE_MACHINES / f"{name}.asl.json").read_text(), how)
