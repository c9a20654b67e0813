"""ReclaimFunds: take the net amount back from the payee."""

from typing import Any

from handlers import _dependencies, _reversal
from settlement.adapters import sweeper
from settlement.adapters.telemetry import observed
from settlement.model import accounts
from settlement.model.request import parse_settlement
from settlement.model.status import Step
from settlement.policy import sweeps


@observed(Step.RELEASE.reversal)
def handler(event: dict[str, Any], context: object) -> None:
    """Commit the release's reversal. A merchant's release is swept first, so that its money is there to take.

    Raises StepFenced and the payee's refusals, such as InsufficientFunds if they have spent the amount.
    """
    settlement = parse_settlement(event["settlement"], _dependencies.config)
    if accounts.is_merchant(settlement.payee):
        span = sweeps.before_refund(_dependencies.store.settlement(settlement.key))
        if span:
            sweeper.fold(_dependencies.store, span)
    _reversal.reverse(Step.RELEASE, event)
