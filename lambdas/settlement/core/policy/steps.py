from datetime import datetime

from settlement.core.ledger import balances, entries, forward, kyc_review
from settlement.core.ledger.failure_reasons import ensure_admits
from settlement.core.ledger.kyc_review import WebhookEvent
from settlement.core.ledger.transaction import StepTransaction, Transfer, Write
from settlement.core.model import accounts
from settlement.core.model.errors import IdempotencyConflict
from settlement.core.model.request import Request
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status, Step
from settlement.core.model.verdict import Verdict


def settlement_for(request: Request, config: StageConfig) -> Settlement:
    return request.settlement(config.scheduled_fee(request.amount))


def verify_same_request(request: Request, claimed: SettlementState) -> Settlement:
    """Check that the request is the claimed one. Raises IdempotencyConflict.

    A request without a fee takes the claimed fee, so a new fee schedule causes no conflict.
    """
    settlement = request.settlement(claimed.settlement.fee)
    if not claimed.same_request(settlement):
        raise IdempotencyConflict.of_key(request.key)
    return settlement


def is_replay(claimed: SettlementState, execution: str) -> bool:
    return not (claimed.status is Status.PROCESSING and claimed.owner == execution)


def claim_and_hold(
    settlement: Settlement, execution: str, now: datetime, config: StageConfig
) -> StepTransaction:
    return _hold(settlement, forward.claim_and_hold(settlement, execution, now, config), now)


def hold(settlement: Settlement, now: datetime) -> StepTransaction:
    """Build the hold of a key that was claimed before. It is refused after the deadline."""
    return _hold(settlement, _advance(settlement, Step.HOLD, now), now)


def ensure_can_verify(settlement: Settlement, state: SettlementState | None, now: datetime) -> None:
    """Raise the refusal if a verdict could not commit. Call it before asking the KYC provider."""
    ensure_admits(settlement, Step.VERIFY, state, now)


def record_webhook_verdict(
    settlement: Settlement,
    verdict: Verdict,
    event: WebhookEvent,
    owner: str,
    now: datetime,
    config: StageConfig,
) -> tuple[Write, ...]:
    """Record a webhook's verdict. `owner` stays until recovery resumes the settlement."""
    return (
        kyc_review.event_marker(event, settlement, now),
        kyc_review.end_review(settlement, verdict, owner, now, config),
        entries.evidence(settlement, kyc_review.REVIEW, verdict.evidence(), now),
    )


def release(settlement: Settlement, config: StageConfig, now: datetime) -> StepTransaction:
    """Build the release. The fee stays in escrow, so the fee's step cannot lack funds."""
    highest_balance = config.highest_balances.get(settlement.currency)
    is_swept = accounts.is_merchant(settlement.payee)
    return StepTransaction(
        entry=_entry(settlement, Step.RELEASE, now),
        settlement=_advance(settlement, Step.RELEASE, now),
        balance=None if is_swept else balances.credit_payee(settlement, highest_balance),
    )


def fee(settlement: Settlement, now: datetime) -> StepTransaction:
    """Build the fee. It is the last movement, and also commits SETTLED."""
    return StepTransaction(
        entry=_entry(settlement, Step.FEE, now),
        settlement=_advance(settlement, Step.FEE, now),
        metric="Settled",
    )


def _hold(settlement: Settlement, row: Write, now: datetime) -> StepTransaction:
    """Take the amount from the payer: debit the balance, and post the entry."""
    entry = _entry(settlement, Step.HOLD, now)
    return StepTransaction(settlement=row, entry=entry, balance=balances.debit_payer(settlement))


def _advance(settlement: Settlement, step: Step, now: datetime) -> Write:
    change = Transfer.of(settlement, step).change_of(accounts.escrow(settlement.key))
    return forward.advance(settlement, step, escrow_change=change, now=now)


def _entry(settlement: Settlement, step: Step, now: datetime) -> Write:
    return entries.transfer(settlement, step, Transfer.of(settlement, step), now)
