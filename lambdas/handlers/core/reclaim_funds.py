"""Take the net amount back from the payee. A merchant's releases are swept first."""

from typing import Any

from handlers import _dependencies, rooms
from handlers.core import _reversal
from settlement.core.model import accounts
from settlement.core.model.request import parse_settlement
from settlement.core.model.status import Step
from settlement.core.telemetry import observed


@observed(Step.RELEASE.reversal)
def handler(event: dict[str, Any], context: object) -> None:
    """Commit the release's reversal. Raises StepFenced, and refusals such as InsufficientFunds."""
    settlement = parse_settlement(event["settlement"], _dependencies.config)
    if accounts.is_merchant(settlement.payee):
        state = _dependencies.store.settlement(settlement.key)
        if state:
            rooms.before_refund(_dependencies.store, state)
    _reversal.reverse(Step.RELEASE, event)
