"""AwaitResolution: leave word of who waits for a person's decision, and how to wake them."""

from typing import Any

from handlers import _runtime
from settlement import limbo
from settlement.request import parse_settlement
from settlement.telemetry import observed


@observed("await")
def handler(event: dict[str, Any], context: object) -> None:
    """Put the task's token on the settlement's row. Raises StepFenced out of LIMBO: nobody needs to wait."""
    settlement = parse_settlement(event["settlement"], _runtime.terms)
    _runtime.store.update(limbo.await_decision(settlement, event["token"], event["execution_arn"]))
