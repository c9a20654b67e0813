from typing import Any

from handlers import _dependencies
from settlement.core.ledger import limbo
from settlement.core.model.errors import IdempotencyConflict, StepFenced
from settlement.core.model.request import parse_settlement
from settlement.core.model.status import Status
from settlement.core.telemetry import observed


@observed("await")
def handler(event: dict[str, Any], context: object) -> None:
    """Record the waiting execution's task token for the open case. Raises StepFenced outside LIMBO.

    If the case is closed meanwhile, the woken execution notices it.
    """
    settlement, store = parse_settlement(event["settlement"], _dependencies.config), _dependencies.store
    state = store.settlement(settlement.key)
    if state and not state.same_request(settlement):
        raise IdempotencyConflict.of_key(settlement.key)
    if state is None or state.status is not Status.LIMBO:
        raise StepFenced("await", f"{settlement.key} is not in LIMBO", state.status if state else None)
    waiting = limbo.await_decision(settlement, state.case_number, event["token"], event["execution_arn"])
    store.put(waiting)
