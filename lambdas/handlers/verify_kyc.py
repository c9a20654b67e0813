"""VerifyKyc: ask the KYC provider about the payment, once, and put its verdict on record."""

from datetime import datetime
from typing import Any

from handlers import _dependencies, _kyc
from settlement.adapters.telemetry import count, logger, observed
from settlement.ledger import kyc_review
from settlement.ledger.keys import Row
from settlement.model.errors import IdempotencyConflict, KycRejected
from settlement.model.request import parse_settlement
from settlement.model.settlement import Settlement
from settlement.model.state import SettlementState
from settlement.model.status import Step
from settlement.model.verdict import KycDecision, Verdict
from settlement.policy import steps


@observed("verify")
def handler(event: dict[str, Any], context: object) -> dict[str, bool]:
    """Return whether the payment is `in_review`; if not, it is approved. The reason stays in the entry.

    Raises KycRejected for a verdict against the payment; KycUnavailable, KycCircuitOpen and
    KycRequestRefused if there is no verdict; StepFenced and DeadlineExceeded.
    """
    settlement = parse_settlement(event["settlement"], _dependencies.config)
    entry = _verdict(settlement)
    if entry is None:
        count("KycReview")
        return {"in_review": True}
    if entry["decision"] == KycDecision.REJECTED:
        raise KycRejected(f"kyc: rejected by the provider; its reference is {entry['reference']}")
    return {"in_review": False}


def _verdict(settlement: Settlement) -> Row | None:
    """Return the journal entry of the verdict, old or new; None while the payment is in review.

    The row is read before the provider is asked: a verdict is replayed for ever, a review requested once.
    """
    now, store = _dependencies.now(), _dependencies.store
    state = store.settlement(settlement.key)
    if state is None or state.verdict is None:
        steps.ensure_can_verify(settlement, state, now)
        if state and state.is_in_review:
            return None
        verdict = _kyc.ask(settlement)
        if verdict.decision is not KycDecision.REVIEW:
            return _record(settlement, verdict)
        state = _begin_review(settlement, verdict, state)
        if state.verdict is None:
            return None
    if not state.same_request(settlement):
        raise IdempotencyConflict.of_key(settlement.key)
    count("StepReplayed")
    return store.entry(settlement.key, Step.VERIFY)


def _record(settlement: Settlement, verdict: Verdict) -> Row:
    entry = _dependencies.store.commit(steps.verify(settlement, verdict, _dependencies.now()))
    if entry["decision"] != verdict.decision:  # the first verdict counts, but the conflict must be seen
        count("KycVerdictConflict")
        logger.warning("conflict", reference=verdict.reference, on_record=entry["reference"])
    return entry


def _begin_review(settlement: Settlement, verdict: Verdict, state: SettlementState | None) -> SettlementState:
    """Leave the payment to a review, which ends at a deadline that the request named, if it named one."""
    now = _dependencies.now()
    until = _kyc.review_ends(now)
    if state and settlement.deadline_seconds is not None:
        until = datetime.fromisoformat(state.deadline_at)
    return _dependencies.store.update(kyc_review.begin_review(settlement, verdict, until, now))
