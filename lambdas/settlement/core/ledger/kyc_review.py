"""Writes of a KYC verdict, and of the review that may precede it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.conditions import (
    NO_VERDICT,
    NOT_EXPIRED,
    NOT_IN_REVIEW,
    Condition,
    before_deadline,
    committed,
    same_request,
    status_is,
    this_review,
)
from settlement.core.ledger.failure_reasons import fenced, late_or_fenced
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import (
    AlreadyApplied,
    Write,
    placeholders,
    put,
    update,
    update_with_event,
)
from settlement.core.model.errors import IdempotencyConflict, KycUnavailable, SettlementError, StepFenced
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status, Step
from settlement.core.model.timestamps import timestamp
from settlement.core.model.verdict import KycDecision, Verdict

REVIEW = "review"
"""Evidence name of a webhook's verdict; a direct answer's is `verify`."""


@dataclass(frozen=True)
class WebhookEvent:
    """The sender's event id, and the digest of the webhook's body."""

    id: str
    digest: str


def record_verdict(settlement: Settlement, verdict: Verdict, now: datetime) -> Write:
    """Record the verdict of the provider's direct answer. Only an approval commits the step.

    During a review, only the webhook decides. A recorded verdict stays.
    """

    def explain(step: str, state: SettlementState) -> SettlementError:
        if _waits_for_review(state):
            return KycUnavailable("kyc: another call was told meanwhile that the payment is in review")
        return late_or_fenced(now)(step, state)

    expression, values = _verdict(verdict, now)
    return _decided_by(verdict)(
        keys.settlement(settlement.key),
        f"SET {expression}",
        values=values,
        conditions=[*_awaits_verdict(settlement, now), NOT_IN_REVIEW],
        on_failure=fenced(
            settlement, Step.VERIFY, replay_if=lambda state: state.verdict is not None, explain=explain
        ),
    )


def begin_review(
    settlement: Settlement, verdict: Verdict, until: datetime, now: datetime, *also: Condition
) -> Write:
    """Begin a review. The deadline and recovery's next look move to `until`.

    A row with a verdict or an open review stays unchanged.
    """
    index = keys.in_flight_index(settlement.key, timestamp(until))
    return update_with_event(
        keys.settlement(settlement.key),
        "SET review = :review, deadline_at = :until, in_flight_since = :until,"
        " gsi1pk = :gsi1pk, gsi1sk = :gsi1sk",
        values={":review": verdict.reference, ":until": timestamp(until), **placeholders(index)},
        conditions=[*_awaits_verdict(settlement, now), NOT_IN_REVIEW, *also],
        on_failure=fenced(
            settlement,
            Step.VERIFY,
            replay_if=lambda state: state.verdict is not None or _waits_for_review(state),
            explain=late_or_fenced(now),
        ),
    )


def end_review(
    settlement: Settlement, verdict: Verdict, owner: str, now: datetime, config: StageConfig
) -> Write:
    """Record a webhook's verdict, and let recovery resume the settlement at once.

    The settlement gets a new time to settle, because the review may have used up the first. The request's own
    deadline stays. `owner` is not an execution's name. It stops the earlier owner until recovery names a
    new one. The same decision is a replay. Another decision is a conflict.
    """

    def explain(step: str, state: SettlementState) -> SettlementError:
        if state.verdict is not None:
            return IdempotencyConflict(f"decision: {state.verdict} is on record, for good")
        if _waits_for_review(state) and state.review != verdict.reference:
            return StepFenced("reference", "the settlement waits for another verification", state.status)
        return late_or_fenced(now)(step, state)

    index = keys.in_flight_index(settlement.key, timestamp(now))
    assignments = (
        "#owner = :owner, owner_epoch = owner_epoch + :one, in_flight_since = :now,"
        " gsi1pk = :gsi1pk, gsi1sk = :gsi1sk"
    )
    values: dict[str, Any] = {":owner": owner, ":one": 1, **placeholders(index)}
    if settlement.deadline_seconds is None:
        assignments += ", deadline_at = :deadline"
        values |= {":deadline": timestamp(now + config.time_to_settle(None))}
    expression, verdict_values = _verdict(verdict, now)
    return _decided_by(verdict)(
        keys.settlement(settlement.key),
        f"SET {assignments}, {expression}",
        values=values | verdict_values,
        conditions=[*_awaits_verdict(settlement, now), this_review(verdict.reference)],
        on_failure=fenced(
            settlement,
            Step.VERIFY,
            replay_if=lambda state: state.verdict == verdict.decision,
            explain=explain,
        ),
    )


def event_marker(event: WebhookEvent, settlement: Settlement, now: datetime) -> Write:
    """Mark an event as seen. The same event again is a replay."""

    def meaning(marker: Row | None) -> SettlementError | AlreadyApplied:
        if marker and marker["digest"] == event.digest:
            return AlreadyApplied(marker)
        return IdempotencyConflict("webhook-id: was used before by an event with other content")

    row = {
        **keys.event(event.id),
        "digest": event.digest,
        "key": settlement.key,
        "received_at": timestamp(now),
    }
    return put(row, on_failure=meaning)


def _awaits_verdict(settlement: Settlement, now: datetime) -> list[Condition]:
    return [
        status_is(Status.PROCESSING),
        same_request(settlement),
        committed(Step.HOLD),
        NO_VERDICT,
        before_deadline(now),
        NOT_EXPIRED,
    ]


def _decided_by(verdict: Verdict) -> Callable[..., Write]:
    """Return the builder of a verdict's write. A rejection makes no event, because the reversal makes one."""
    return update_with_event if verdict.decision is KycDecision.APPROVED else update


def _verdict(verdict: Verdict, now: datetime) -> tuple[str, dict[str, Any]]:
    values: dict[str, Any] = {":verdict": verdict.decision.value}
    if verdict.decision is KycDecision.APPROVED:
        slot = Step.VERIFY.slot
        return f"verdict = :verdict, {slot} = :now REMOVE review", {**values, ":now": timestamp(now)}
    return "verdict = :verdict REMOVE review", values


def _waits_for_review(state: SettlementState) -> bool:
    return state.status is Status.PROCESSING and state.is_in_review
