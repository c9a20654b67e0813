"""Writes of a check's evidence, and of a wait before the evidence.

A wait is a review on the row with the reference `check:NAME`, which no KYC provider can use.
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
    """The end of a check's wait: a fixed time after the hold, or the request's own deadline."""
    if state.settlement.deadline_seconds is not None:
        return datetime.fromisoformat(state.deadline_at)
    held_at = datetime.fromisoformat(state.steps[Step.HOLD])
    return held_at + timedelta(seconds=check.wait_seconds)


def begin(
    settlement: Settlement, check: Declared, unanswered: Collection[str], until: datetime, now: datetime
) -> Write:
    """Begin a wait.

    A row that waits already is left as it is. If one of the `unanswered` checks has answered, the write is
    refused: a refusal must not wait for another check.
    """
    name = step_of(check.name)
    wanted = Verdict(decision=KycDecision.REVIEW, reference=name, reason="", provider="check")
    conditions = [
        Condition(f"NOT contains(answered, :check_{n})", {f":check_{n}": one})
        for n, one in enumerate(sorted(unanswered))
    ]
    return kyc_review.begin_review(settlement, wanted, until, now, *conditions)


def keep(settlement: Settlement, check: Declared, awaited: str | None) -> Write:
    """Note a check's answer. From then on, no wait for this check begins.

    The row must still wait for `awaited`, another check, or for nothing.
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
    """End the wait for `awaited` by that check's answer, or by another check's refusal.

    Recovery finds the settlement due at once, and it gets a full time to settle, unless the request named a
    deadline. No step commits: the other checks and the KYC provider are asked next. `since` is the time of
    the evidence. `waits` counts the ended waits, for the proof; `answered` has the checks for which no wait
    begins any more.
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
