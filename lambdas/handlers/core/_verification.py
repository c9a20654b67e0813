"""The verify step. A room supplies the KYC provider."""

import os
from datetime import datetime
from typing import Any, Protocol

from handlers import _dependencies, rooms
from settlement.core.ledger import entries, kyc_review
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import (
    IdempotencyConflict,
    InReview,
    KycCircuitOpen,
    KycRejected,
    KycRequestRefused,
    KycUnavailable,
)
from settlement.core.model.request import parse_settlement
from settlement.core.model.saga import Step
from settlement.core.model.settlement import Settlement
from settlement.core.model.state import SettlementState
from settlement.core.model.verdict import KycDecision, Verdict
from settlement.core.policy import steps
from settlement.core.telemetry import count, logger

if "CHECKS" in os.environ:  # during the function's start: a call has little time
    rooms.load("before_verdict")


class Provider(Protocol):
    def ask(self, settlement: Settlement, context: Any) -> Verdict:
        """Return the provider's verdict or REVIEW.

        Raises KycUnavailable, KycCircuitOpen and KycRequestRefused. Raises StoreUnavailable if the invocation
        has too little time left.
        """
        ...

    def review_ends(self, now: datetime) -> datetime: ...


def verify(event: dict[str, Any], context: Any, provider: Provider) -> None:
    """Record the provider's verdict, with the reason in the evidence. Return if the provider approves.

    All checks of the stage must approve first. Raises KycRejected, and InReview while a reviewer decides.
    Raises StepFenced, DeadlineExceeded, IdempotencyConflict, and the errors of `Provider.ask` and of the
    checks.
    """
    settlement = parse_settlement(event["settlement"], _dependencies.config)
    if _verdict(settlement, context, provider) == KycDecision.REJECTED:
        evidence = _dependencies.store.evidence(settlement.key, kyc_review.REVIEW) or _on_record(settlement)
        reference = evidence["reference"] if evidence else None
        raise KycRejected(f"kyc: rejected by the provider; its reference is {reference}")


def _verdict(settlement: Settlement, context: Any, provider: Provider) -> str | None:
    """Return the verdict. Raises InReview until one exists.

    The row is read first, so a recorded verdict is replayed and a review is requested once.
    """
    now, store = _dependencies.now(), _dependencies.store
    state = store.settlement(settlement.key)
    if state is None or state.verdict is None:
        steps.ensure_can_verify(settlement, state, now)
        if state and state.checks:
            rooms.before_verdict(settlement, state, context)
        if state and state.is_in_review:
            raise _in_review(settlement)
        verdict = _ask(settlement, context, provider)
        if verdict.decision is not KycDecision.REVIEW:
            return _record(settlement, verdict)
        state = _begin_review(settlement, verdict, state, provider)
        if state.verdict is None:
            raise _in_review(settlement)
    if not state.same_request(settlement):
        raise IdempotencyConflict.of_key(settlement.key)
    count("StepReplayed")
    return state.verdict


def _ask(settlement: Settlement, context: Any, provider: Provider) -> Verdict:
    """Return the provider's answer. After REVIEW or a failure, return the evidence's verdict, if any.

    An earlier call may have died between writing evidence and row.
    """
    try:
        answer = provider.ask(settlement, context)
        if answer.decision is not KycDecision.REVIEW:
            return answer
    except (KycUnavailable, KycCircuitOpen, KycRequestRefused):
        if evidence := _on_record(settlement):
            return Verdict.on_record(evidence)
        raise
    if evidence := _on_record(settlement):
        _conflict(answer, evidence["reference"])
        return Verdict.on_record(evidence)
    return answer


def _on_record(settlement: Settlement) -> Row | None:
    return _dependencies.store.evidence(settlement.key, Step.VERIFY)


def _record(settlement: Settlement, verdict: Verdict) -> str | None:
    """Record the verdict, evidence first: the row never has a verdict without evidence.

    If an earlier call died between the two writes, its evidence decides. The provider's webhook wins if it
    came first. A different second verdict is only logged.
    """
    now, store = _dependencies.now(), _dependencies.store
    evidence = store.put(entries.evidence(settlement, Step.VERIFY, verdict.evidence(), now))
    if evidence["decision"] != verdict.decision:
        _conflict(verdict, evidence["reference"])
    state = store.update(kyc_review.record_verdict(settlement, Verdict.on_record(evidence), now))
    if state.verdict not in (evidence["decision"], verdict.decision):
        _conflict(verdict, kyc_review.REVIEW)
    return state.verdict


def _conflict(answer: Verdict, on_record: str) -> None:
    count("KycVerdictConflict")
    logger.warning("conflict", reference=answer.reference, on_record=on_record)


def _begin_review(
    settlement: Settlement, verdict: Verdict, state: SettlementState | None, provider: Provider
) -> SettlementState:
    now = _dependencies.now()
    until = provider.review_ends(now)
    if state and settlement.deadline_seconds is not None:
        until = datetime.fromisoformat(state.deadline_at)
    return _dependencies.store.update(kyc_review.begin_review(settlement, verdict, until, now))


def _in_review(settlement: Settlement) -> InReview:
    count("KycReview")
    return InReview(f"kyc: {settlement.key} waits for a reviewer's decision")
