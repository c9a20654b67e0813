"""ReclaimFunds: take the net amount back from the payee."""

from typing import Any

from handlers import _reversal
from settlement.adapters.telemetry import observed
from settlement.model.status import Step


@observed(Step.RELEASE.reversal)
def handler(event: dict[str, Any], context: object) -> None:
    """Commit the release's reversal.

    Raises StepFenced and the payee's refusals, such as InsufficientFunds if they have spent the amount.
    """
    _reversal.reverse(Step.RELEASE, event)
