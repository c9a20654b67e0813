"""AwaitResolution: record which execution waits for a person's decision, and the token that wakes it."""

from typing import Any

from handlers import _dependencies
from settlement.adapters.telemetry import observed
from settlement.ledger import limbo
from settlement.model.request import parse_settlement


@observed("await")
def handler(event: dict[str, Any], context: object) -> None:
    """Put the task's token on the settlement's row. Raises StepFenced if the settlement is not in LIMBO."""
    settlement = parse_settlement(event["settlement"], _dependencies.config)
    _dependencies.store.update(limbo.await_decision(settlement, event["token"], event["execution_arn"]))
