"""EnterLimbo: give up on a reversal that is stuck, and bar the account that it is stuck on."""

from dataclasses import replace
from typing import Any

from handlers import _runtime
from settlement import compensation, outcome, rows
from settlement.errors import AccountNotFound, StepFenced
from settlement.request import parse_settlement
from settlement.status import Step
from settlement.telemetry import observed


@observed("limbo")
def handler(event: dict[str, Any], context: object) -> dict[str, str]:
    """Return the journal entry of the case. Raises StepFenced where the settlement has moved on by itself.

    `stuck` has the error of the one state that failed, under the step that it was to reverse. A reversal
    whose answer was lost may have committed: then it is not stuck, and the next one has not been tried.
    One that was known to have committed (`reversed`), and fails all the same, would go round in circles.
    """
    settlement = parse_settlement(event["settlement"], _runtime.terms)
    ((step, error),) = event["stuck"].items()
    row = _runtime.store.read(rows.settlement_key(settlement.key))
    done_meanwhile = row and step in row.get("reversed", ()) and step not in event["reversed"]
    if row is None or row.get("resolutions") != event["case"] - 1 or done_meanwhile:
        raise StepFenced(f"limbo: the reversal of {step} of {settlement.key} is not what is stuck now")
    case, now = compensation.case_of(settlement, row, Step(step)), _runtime.now()
    failure = outcome.failure(case.step.reversal, error)
    try:
        entry = _runtime.store.post(compensation.enter_limbo(settlement, case, failure, now))
    except AccountNotFound:  # there is no account to bar, which may be why the reversal is stuck
        unbarred = replace(case, barred=None)
        entry = _runtime.store.post(compensation.enter_limbo(settlement, unbarred, failure, now))
    return outcome.of_entry(entry, _runtime.terms)
