"""ReportOutcome: tell how a settlement stands that this execution does not drive, or drives no further."""

from typing import Any

from handlers import _runtime
from settlement import outcome, rows
from settlement.errors import StepFenced
from settlement.request import parse_settlement
from settlement.status import Status, Step
from settlement.telemetry import observed


@observed("report")
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the outcome as the settlement's row has it now. Raises StepFenced for a key never claimed.

    An execution that drives a settlement comes here once its compensation is started, or with a payment
    that goes on without it: in review, released, or given to another execution. Else what is PROCESSING is
    about to be reversed, and is reported so.
    """
    settlement = parse_settlement(event["settlement"], _runtime.terms)
    row = _runtime.store.read(rows.settlement_key(settlement.key))
    if row is None:
        raise StepFenced(f"report: the key {settlement.key} was never claimed")
    is_released, is_another_s = Step.RELEASE in row.get("steps", ()), row["owner"] != event["execution"]
    goes_on = "review" in row or is_released or is_another_s
    if row["status"] == Status.PROCESSING and not event["replayed"] and not goes_on:
        row["status"] = Status.COMPENSATING
    return outcome.of_settlement(settlement.key, row, _runtime.terms, replayed=event["replayed"])
