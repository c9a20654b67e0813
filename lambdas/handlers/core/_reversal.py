from typing import Any

from handlers import _dependencies
from settlement.core.model.request import parse_settlement
from settlement.core.model.status import Step
from settlement.core.policy import compensation


def reverse(step: Step, event: dict[str, Any]) -> None:
    """Reverse a committed `step`. A repeated call changes nothing. Raises the step's refusals."""
    settlement = parse_settlement(event["settlement"], _dependencies.config)
    _dependencies.store.commit(compensation.reverse_step(settlement, step, _dependencies.now()))
