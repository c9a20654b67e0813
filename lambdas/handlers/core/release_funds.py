"""ReleaseFunds: move the net amount from the settlement's escrow to the payee."""

from typing import Any

from handlers import _dependencies
from settlement.core.ledger.failure_reasons import payee_refusal
from settlement.core.model import accounts
from settlement.core.model.request import parse_settlement
from settlement.core.model.settlement import Settlement
from settlement.core.policy import steps
from settlement.core.telemetry import observed


@observed("release")
def handler(event: dict[str, Any], context: object) -> None:
    """Commit the release. Raises the payee's refusals, StepFenced and DeadlineExceeded."""
    settlement = parse_settlement(event["settlement"], _dependencies.config)
    if accounts.is_merchant(settlement.payee):
        _ensure_can_receive(settlement)
    _dependencies.store.commit(steps.release(settlement, _dependencies.config, _dependencies.now()))


def _ensure_can_receive(settlement: Settlement) -> None:
    """Raise why a merchant cannot receive the release, unless it has: its account may be closed since.

    An order may close it after this: then a release that is under way still reaches it, as a reversal may.
    """
    store = _dependencies.store
    if refusal := payee_refusal(settlement.currency, store.account(settlement.payee)):
        state = store.settlement(settlement.key)
        if state is None or not state.is_released:
            raise refusal
