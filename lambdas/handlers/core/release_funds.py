"""Move the net amount from escrow to the payee."""

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
    """Raise the refusal of a merchant whose account was closed. After a committed release, raise nothing.

    An account closed after this check still gets the release.
    """
    store = _dependencies.store
    if refusal := payee_refusal(settlement.currency, store.account(settlement.payee)):
        state = store.settlement(settlement.key)
        if state is None or not state.is_released:
            raise refusal
