"""Writes of a check's evidence, and of the wait that may precede it.

A wait is a review of the row, whose reference is `check:NAME`: the KYC provider can never use that name.
"""

from datetime import datetime, timedelta
from typing import Any

from settlement.checks.answers import step_of
from settlement.checks.check import Check
from settlement.core.ledger import entries, keys, kyc_review
from settlement.core.ledger.conditions import (
    NO_VERDICT,
    NOT_EXPIRED,
    Condition,
    before_deadline,
    committed,
    same_request,
    status_is,
)
from settlement.core.ledger.failure_reasons import fenced, late_or_fenced
from settlement.core.ledger.transaction import Write, placeholders, update
from settlement.core.model import executions
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status, Step
from settlement.core.model.timestamps import timestamp
from settlement.core.model.verdict import CHECK, KycDecision, Verdict


def evidence(settlement: Settlement, check: Check, content: dict[str, str], now: datetime) -> Write:
    return entries.evidence(settlement, step_of(check.name), content, now)


def waited_for(state: SettlementState) -> str | None:
    """Return the name of the awaited check, if any."""
    review = state.review or ""
    is_open = state.status is Status.PROCESSING and review.startswith(CHECK)
    return review.removeprefix(CHECK) if is_open else None


def ends_at(check: Check, state: SettlementState) -> datetime:
    """Return the end of a check's wait: a fixed time after the hold, or the request's own deadline."""
    if state.settlement.deadline_seconds is not None:
        return datetime.fromisoformat(state.deadline_at)
    held_at = datetime.fromisoformat(state.steps[Step.HOLD])
    return held_at + timedelta(seconds=check.wait_seconds)


def begin(settlement: Settlement, check: Check, until: datetime, now: datetime) -> Write:
    """Begin a wait. A row that waits already is left as it is; after the answer, it is refused."""
    name = step_of(check.name)
    wanted = Verdict(decision=KycDecision.REVIEW, reference=name, reason="", provider="check")
    unanswered = Condition("NOT contains(answered, :check)", {":check": check.name})
    return kyc_review.begin_review(settlement, wanted, until, now, unanswered)


def keep(settlement: Settlement, check: Check) -> Write:
    """Note an answer that nothing waits for: no wait for its check begins any more."""
    return update(
        keys.settlement(settlement.key),
        "ADD answered :check",
        values={":check": {check.name}},
        conditions=[
            status_is(Status.PROCESSING),
            same_request(settlement),
            committed(Step.HOLD),
            NO_VERDICT,
            Condition("NOT review = :review", {":review": step_of(check.name)}),
        ],
        on_failure=fenced(
            settlement,
            Step.VERIFY,
            replay_if=lambda state: waited_for(state) == check.name,
        ),
    )


def end(settlement: Settlement, check: Check, since: str, now: datetime, config: StageConfig) -> Write:
    """End a wait: the settlement is due for recovery at once, and gets a full time to settle.

    No step commits: the other checks and the KYC provider are asked next. `since` is the time of the
    evidence. A deadline that the request named stays. `waits` counts the ended waits, for the proof;
    `answered` has the checks for which no wait begins any more.
    """
    name = step_of(check.name)
    index = keys.in_flight_index(settlement.key, since)
    assignments = (
        "#owner = :owner, owner_epoch = owner_epoch + :one, in_flight_since = :since,"
        " gsi1pk = :gsi1pk, gsi1sk = :gsi1sk"
    )
    values: dict[str, Any] = {
        ":owner": executions.decided(settlement.key),
        ":one": 1,
        ":check": {check.name},
        ":since": since,
        **placeholders(index),
    }
    if settlement.deadline_seconds is None:
        assignments += ", deadline_at = :deadline"
        values[":deadline"] = timestamp(now + config.time_to_settle(None))
    return update(
        keys.settlement(settlement.key),
        f"SET {assignments} REMOVE review ADD waits :one, answered :check",
        values=values,
        conditions=[
            status_is(Status.PROCESSING),
            same_request(settlement),
            Condition("review = :review", {":review": name}),
            before_deadline(now),
            NOT_EXPIRED,
        ],
        on_failure=fenced(
            settlement,
            Step.VERIFY,
            replay_if=lambda state: not state.is_in_review and state.verdict is None,
            explain=late_or_fenced(now),
        ),
    )
