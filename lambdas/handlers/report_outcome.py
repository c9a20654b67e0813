"""ReportOutcome: report a settlement that this execution does not run, or runs no further."""

from typing import Any

from handlers import _dependencies
from settlement.adapters.telemetry import observed
from settlement.model.errors import StepFenced
from settlement.model.request import parse_settlement
from settlement.policy import compensation, outcome


@observed("report")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the outcome from the settlement's row. Raises StepFenced for an unclaimed key.

    An execution with an `error` in its state has started the compensation. Until that begins, the row is
    still PROCESSING; if the settlement does not continue without this execution, it is reported as
    COMPENSATING, with the failure that it is about to have.
    """
    given, config = event["state"], _dependencies.config
    settlement = parse_settlement(given["settlement"], config)
    state = _dependencies.store.settlement(settlement.key)
    if state is None:
        raise StepFenced.unclaimed("report", settlement.key)
    if "error" in given:
        state = compensation.about_to_begin(state, given["error"], event["execution"])
    return outcome.of_state(state, config, replayed=given.get("replayed", False))
