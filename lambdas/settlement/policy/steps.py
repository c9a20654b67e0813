"""The forward steps of a settlement: pure decisions, one function a step.

The hold moves the amount from the payer to the settlement's escrow. The release (payout) moves the net
amount from there to the payee. The fee is the rest.
"""

from datetime import datetime

from settlement.ledger import balances, entries, forward, kyc_review
from settlement.ledger.failure_reasons import ensure_admits
from settlement.ledger.kyc_review import WebhookEvent
from settlement.ledger.transaction import StepTransaction, Transfer, Write
from settlement.model import accounts
from settlement.model.errors import IdempotencyConflict
from settlement.model.request import Request
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from settlement.model.state import SettlementState
from settlement.model.status import Status, Step
from settlement.model.verdict import Verdict


def settlement_for(request: Request, config: StageConfig) -> Settlement:
    """Return the settlement to claim the key for, with the stage's fee if the request names none."""
    return request.settlement(config.scheduled_fee(request.amount))


def verify_same_request(request: Request, claimed: SettlementState) -> Settlement:
    """Return the settlement that the key stands for. Raises IdempotencyConflict for a different request.

    A request without a fee takes the fee with which the key was claimed, so that a change of the fee
    schedule between two tries is no conflict.
    """
    settlement = request.settlement(claimed.settlement.fee)
    if not claimed.same_request(settlement):
        raise IdempotencyConflict.of_key(request.key)
    return settlement


def is_replay(claimed: SettlementState, execution: str) -> bool:
    """Return whether `execution` must not run the settlement: finished, or owned by another execution."""
    return not (claimed.status is Status.PROCESSING and claimed.owner == execution)


def hold(settlement: Settlement, now: datetime) -> StepTransaction:
    """Move the amount from the payer into escrow. Refused for lack of funds, by a block, and if late."""
    moved = Transfer(debit=settlement.payer, credit=accounts.escrow(settlement.key), amount=settlement.amount)
    return StepTransaction(
        entry=entries.transfer(settlement, Step.HOLD, moved, now),
        settlement=forward.advance(settlement, Step.HOLD, escrow_change=moved.amount, now=now),
        balance=balances.debit_payer(settlement),
    )


def ensure_can_verify(settlement: Settlement, state: SettlementState | None, now: datetime) -> None:
    """Fail fast before calling the KYC provider if the verdict could not be committed."""
    ensure_admits(settlement, Step.VERIFY, state, now)


def verify(settlement: Settlement, verdict: Verdict, now: datetime) -> StepTransaction:
    """Record the verdict on the two parties: evidence, which moves nothing."""
    return StepTransaction(
        entry=entries.evidence(settlement, Step.VERIFY, verdict.evidence(), now),
        settlement=kyc_review.record_verdict(settlement, verdict, now),
    )


def record_webhook_verdict(
    settlement: Settlement,
    verdict: Verdict,
    event: WebhookEvent,
    owner: str,
    now: datetime,
    config: StageConfig,
) -> tuple[Write, ...]:
    """Record a verdict of the provider's webhook; `owner` is the execution that resumes the settlement."""
    return (
        kyc_review.event_marker(event, settlement, now),
        entries.verdict(settlement, verdict, now),
        kyc_review.end_review(settlement, verdict, owner, now, config),
    )


def release(settlement: Settlement, config: StageConfig, now: datetime) -> StepTransaction:
    """Move the net amount from escrow to the payee. The fee stays in escrow: no lack of funds can stop it."""
    moved = Transfer(debit=accounts.escrow(settlement.key), credit=settlement.payee, amount=settlement.net)
    return StepTransaction(
        entry=entries.transfer(settlement, Step.RELEASE, moved, now),
        settlement=forward.advance(settlement, Step.RELEASE, escrow_change=-moved.amount, now=now),
        balance=balances.credit_payee(settlement, config.highest_balances.get(settlement.currency)),
    )


def fee(settlement: Settlement, now: datetime) -> StepTransaction:
    """Move the rest of the escrow to the fees, and finish: SETTLED commits with the last movement."""
    moved = Transfer(
        debit=accounts.escrow(settlement.key),
        credit=accounts.fees(settlement.currency),
        amount=settlement.fee,
    )
    return StepTransaction(
        entry=entries.transfer(settlement, Step.FEE, moved, now),
        settlement=forward.advance(settlement, Step.FEE, escrow_change=-moved.amount, now=now),
        metric="Settled",
    )
