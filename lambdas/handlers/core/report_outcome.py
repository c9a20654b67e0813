"""Report a settlement that this execution does not run."""

from typing import Any

from handlers import _dependencies
from handlers.core import _request
from settlement.core.model.errors import AlreadyClaimed, StepFenced
from settlement.core.model.request import parse_settlement
from settlement.core.policy import compensation, outcome
from settlement.core.telemetry import observed


@observed("report")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the outcome from the settlement's row. Raises StepFenced for an unclaimed key.

    With an `error`, this execution has started the compensation. Then a PROCESSING settlement is reported as
    COMPENSATING, unless it is in review, released or owned by another execution.
    """
    given, config = event["state"], _dependencies.config
    known = given.get("settlement")
    key = parse_settlement(known, config).key if known else _request.parse(event).key
    state = _dependencies.store.settlement(key)
    if state is None:
        raise StepFenced.unclaimed("report", key)
    if "error" in given:
        state = compensation.about_to_begin(state, given["error"], event["execution"])
    return outcome.of_state(state, config, replayed=given.get("Error") == AlreadyClaimed.__name__)
