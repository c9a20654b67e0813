"""Writes of a check's evidence, and of a check's wait.

A wait is a review on the settlement's row. Its reference is `check:NAME`, which no KYC provider can use.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from settlement.checks.answers import step_of
from settlement.checks.check import Declared
from settlement.core.ledger import entries, keys, kyc_review
from settlement.core.ledger.conditions import (
    NO_VERDICT,
    NOT_EXPIRED,
    NOT_IN_REVIEW,
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


def evidence(settlement: Settlement, check: Declared, content: dict[str, str], now: datetime) -> Write:
    return entries.evidence(settlement, step_of(check.name), content, now)


def waited_for(state: SettlementState) -> str | None:
    review = state.review or ""
    is_open = state.status is Status.PROCESSING and review.startswith(CHECK)
    return review.removeprefix(CHECK) if is_open else None


def ends_at(check: Declared, state: SettlementState) -> datetime:
    """The end of a check's wait: a fixed time after the hold.

    A deadline of the request replaces that time.
    """
    if state.settlement.deadline_seconds is not None:
        return datetime.fromisoformat(state.deadline_at)
    held_at = datetime.fromisoformat(state.steps[Step.HOLD])
    return held_at + timedelta(seconds=check.wait_seconds)


def begin(
    settlement: Settlement, check: Declared, unanswered: Collection[str], until: datetime, now: datetime
) -> Write:
    """Begin a wait. A row that waits already stays unchanged.

    The write is refused if one of the `unanswered` checks has answered meanwhile. A refusal must not wait for
    another check.
    """
    name = step_of(check.name)
    wanted = Verdict(decision=KycDecision.REVIEW, reference=name, reason="", provider="check")
    conditions = [
        Condition(f"NOT contains(answered, :check_{n})", {f":check_{n}": one})
        for n, one in enumerate(sorted(unanswered))
    ]
    return kyc_review.begin_review(settlement, wanted, until, now, *conditions)


def keep(settlement: Settlement, check: Declared, awaited: str | None) -> Write:
    """Note that a check has answered, so no wait for it begins.

    The row must be waiting for the other check `awaited`, or for none if `awaited` is None.
    """
    return update(
        keys.settlement(settlement.key),
        "ADD answered :check",
        values={":check": {check.name}},
        conditions=[
            status_is(Status.PROCESSING),
            same_request(settlement),
            *([_waits_for(awaited)] if awaited else [committed(Step.HOLD), NO_VERDICT, NOT_IN_REVIEW]),
        ],
        on_failure=fenced(
            settlement,
            Step.VERIFY,
            replay_if=lambda state: waited_for(state) != awaited,
        ),
    )


def end(
    settlement: Settlement, check: Declared, awaited: str, *, since: str, now: datetime, config: StageConfig
) -> Write:
    """End the wait for the check `awaited`, because it answered or another check refused.

    No step commits. Recovery finds the settlement due at once, and asks the other checks and the KYC
    provider. The settlement gets a full time to settle, unless the request has a deadline.

    `since` is the time of the evidence. On the row, `waits` counts the ended waits, for the proof. No wait
    begins for a check in `answered`.
    """
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
            _waits_for(awaited),
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


def _waits_for(name: str) -> Condition:
    return Condition("review = :review", {":review": step_of(name)})
