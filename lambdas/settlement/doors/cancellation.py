"""Cancels a settlement before its hold or in review. A condition on the status excludes late steps.

See docs/decisions/2026-11-23-cancel.md.
"""

from datetime import datetime

from settlement.core.ledger import forward, keys
from settlement.core.ledger.conditions import IN_REVIEW, same_request, sequence_is, status_is
from settlement.core.ledger.transaction import (
    AlreadyApplied,
    OnFailure,
    Write,
    placeholders,
    update_with_event,
)
from settlement.core.model.errors import (
    IdempotencyConflict,
    NotCancellable,
    SequenceChanged,
    SettlementError,
    StepFenced,
)
from settlement.core.model.settlement import Settlement
from settlement.core.model.state import CANCELLED, SettlementState
from settlement.core.model.status import Status, Step
from settlement.core.model.timestamps import timestamp


def before_hold(settlement: Settlement, now: datetime, seen: int | None) -> Write:
    """Reject a settlement without a hold. `seen` is the `sequence` that the caller saw."""
    failure = _failure(Step.HOLD, now)
    return forward.reject(settlement, failure, now, seen=seen, on_failure=_refused(settlement, seen))


def in_review(settlement: Settlement, now: datetime, seen: int | None) -> Write:
    """Move a settlement in review to COMPENSATING, and list it for recovery now.

    The new status blocks the verdict. An earlier deadline would not block it: the webhook's clock may lag.
    """
    failure = _failure(Step.VERIFY, now)
    index = keys.in_flight_index(settlement.key, timestamp(now))
    conditions = [status_is(Status.PROCESSING), same_request(settlement), IN_REVIEW]
    if seen is not None:
        conditions += [sequence_is(seen)]
    return update_with_event(
        keys.settlement(settlement.key),
        "SET #status = :compensating, #failure = :failure, reversed_for = :failure, resolutions = :none,"
        " in_flight_since = :now, gsi1pk = :gsi1pk, gsi1sk = :gsi1sk",
        values={
            ":compensating": Status.COMPENSATING,
            ":failure": failure,
            ":none": 0,
            ":now": timestamp(now),
            **placeholders(index),
        },
        conditions=conditions,
        on_failure=_refused(settlement, seen),
    )


def _failure(step: Step, now: datetime) -> dict[str, str]:
    """The failure, with the time. The proof compares this time with the row's times."""
    cause = f"cancel: its starter has cancelled the payment at {timestamp(now)}"
    return {"step": step.value, "error": CANCELLED, "cause": cause}


def _refused(settlement: Settlement, seen: int | None) -> OnFailure:
    def meaning(state: SettlementState | None) -> SettlementError | AlreadyApplied:
        if state is None:
            return StepFenced.unclaimed("cancel", settlement.key)
        if not state.same_request(settlement):
            return IdempotencyConflict.of_key(settlement.key)
        if state.is_cancelled:
            return AlreadyApplied(state)
        if seen not in (None, state.sequence):
            return SequenceChanged(seen, state.sequence)
        return NotCancellable(_advice(state), state.status)

    return meaning


def _advice(state: SettlementState) -> str:
    if state.status is Status.PROCESSING and (state.is_in_review or not state.steps):
        return "the payment has moved on meanwhile: send the same call again"
    if state.status is Status.PROCESSING and not state.is_released:
        return (
            "the hold has committed, and the payment is not in review: wait for its outcome;"
            " once it is SETTLED, a person's order reverses it"
        )
    return f"the payment is {state.status}: {_ADVICE[state.status]}"


_ADVICE = {
    Status.PROCESSING: "the payee is paid; once it is SETTLED, a person's order reverses it",
    Status.SETTLED: "it is too late to cancel; a person's order reverses what has not been given back",
    Status.COMPENSATING: "it is being reversed already; wait for its outcome",
    Status.LIMBO: "its reversal is stuck, and a person decides; wait for its outcome",
    Status.COMPENSATED: "the payer has everything back already, so that nothing is to be done",
    Status.REJECTED: "nothing was ever held, so that nothing is to be done",
}
