"""VerifyKyc: ask the KYC provider about the payment, once, and put its verdict on record."""

from datetime import datetime
from typing import Any

from handlers import _provider, _runtime
from settlement import reviews, rows, steps
from settlement.errors import KycRejected
from settlement.refusals import other_content
from settlement.request import Settlement, parse_settlement
from settlement.rows import Row
from settlement.status import Step
from settlement.telemetry import count, logger, observed
from settlement.verdict import KycDecision


@observed("verify")
def handler(event: dict[str, Any], context: object) -> dict[str, bool]:
    """Return whether the payment is `in_review`; if not, it is approved. What was said stays in the entry.

    Raises KycRejected where the verdict is against the payment, KycUnavailable and KycRequestRefused where
    there is none, StepFenced and DeadlineExceeded.
    """
    settlement = parse_settlement(event["settlement"], _runtime.terms)
    entry = _verdict(settlement)
    if entry is None:
        count("KycReview")
        return {"in_review": True}
    if entry["decision"] == KycDecision.REJECTED:
        raise KycRejected(f"kyc: rejected by the provider; its reference is {entry['reference']}")
    return {"in_review": False}


def _verdict(settlement: Settlement) -> Row | None:
    """The journal entry of the verdict, old or new; None for as long as the payment is in review.

    The row is read before anybody is asked: a verdict is replayed for ever, and a review asked for once.
    """
    now, store = _runtime.now(), _runtime.store
    row = store.read(rows.settlement_key(settlement.key))
    if row is None or "verdict" not in row:
        steps.check_verifiable(settlement, row, now)
        if row and "review" in row:
            return None
        verdict = _provider.ask(settlement)
        now = _runtime.now()
        if verdict.decision is not KycDecision.REVIEW:
            entry = store.post(steps.verify(settlement, verdict, now))
            if entry["decision"] != verdict.decision:  # the first verdict stands, but somebody should know
                count("KycVerdictConflict")
                logger.warning("conflict", reference=verdict.reference, on_record=entry["reference"])
            return entry
        until = _provider.review_ends(now)
        if row and settlement.deadline_seconds is not None:  # who names a deadline gets it, review or not
            until = datetime.fromisoformat(row["deadline_at"])
        row = store.update(reviews.park(settlement, verdict, until, now))
        if "verdict" not in row:
            return None
    if row["request_hash"] != settlement.request_hash:
        raise other_content(settlement)
    count("StepReplayed")
    return store.read(rows.entry_key(settlement.key, Step.VERIFY))
