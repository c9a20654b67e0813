"""ReleaseFunds: move the net amount from the settlement's escrow to the payee."""

from typing import Any

from handlers import _dependencies
from settlement.adapters.telemetry import observed
from settlement.model import accounts
from settlement.model.request import parse_settlement
from settlement.policy import steps


@observed("release")
def handler(event: dict[str, Any], context: object) -> None:
    """Commit the release. Raises the payee's refusals, StepFenced and DeadlineExceeded."""
    settlement = parse_settlement(event["settlement"], _dependencies.config)
    if accounts.is_merchant(settlement.payee):
        steps.ensure_can_receive(settlement, _dependencies.store.account(settlement.payee))
    _dependencies.store.commit(steps.release(settlement, _dependencies.config, _dependencies.now()))
