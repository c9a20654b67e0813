"""What each step of a settlement does: pure decisions, one function a step.

To hold is to move the amount from the payer to the settlement's escrow, to release is to move the
net amount from there to the payee, and the fee is what is left.
"""

from collections.abc import Mapping
from datetime import datetime

from settlement import items, reviews, rows
from settlement.errors import IdempotencyConflict
from settlement.refusals import check_admits
from settlement.request import Request, Settlement
from settlement.rows import Row
from settlement.status import Status, Step
from settlement.terms import Terms
from settlement.verdict import Verdict
from settlement.writes import Posting, Transfer, Write


def requested(request: Request, terms: Terms) -> Settlement:
    """The settlement to claim the key for: the request, with the stage's fee where it names none."""
    return request.settlement(terms.scheduled_fee(request.amount))


def admitted(request: Request, claimed: Row) -> Settlement:
    """The settlement that the key stands for, given the row that holds the key.

    A request that names no fee takes the one that the key was claimed with, so that a change of the
    fee schedule between two tries is no conflict. Raises IdempotencyConflict for any other difference.
    """
    settlement = request.settlement(claimed["fee"])
    if settlement.request_hash != claimed["request_hash"]:
        raise IdempotencyConflict(f"key: {request.key} was claimed by a request with other content")
    return settlement


def is_replay(claimed: Row, owner: str) -> bool:
    """Whether this execution must not drive the settlement: it is finished, or another one drives it."""
    return not (claimed["status"] == Status.PROCESSING and claimed["owner"] == owner)


def hold(settlement: Settlement, now: datetime) -> Posting:
    """Move the amount from the payer into escrow. Refused for want of funds, by LIMBO, and late."""
    return Posting(
        entry=items.transfer_entry(
            settlement,
            Step.HOLD,
            Transfer(debit=settlement.payer, credit=rows.escrow(settlement.key), amount=settlement.amount),
            now,
        ),
        settlement=items.advance(settlement, Step.HOLD, escrow_change=settlement.amount, now=now),
        balance=items.debit_payer(settlement),
    )


def check_verifiable(settlement: Settlement, row: Row | None, now: datetime) -> None:
    """Raise the refusal that would meet the verdict, so that nobody is asked in vain.

    The hold must have committed, and nothing else may have happened to the settlement.
    """
    check_admits(settlement, Step.VERIFY, row, now)


def verify(settlement: Settlement, verdict: Verdict, now: datetime) -> Posting:
    """Record the verdict on the two parties: evidence, which moves nothing."""
    return Posting(
        entry=items.evidence_entry(settlement, Step.VERIFY, verdict.evidence(), now),
        settlement=reviews.conclude(settlement, verdict, now),
    )


def verdict_received(
    settlement: Settlement, verdict: Verdict, event: reviews.Event, owner: str, now: datetime, terms: Terms
) -> tuple[Write, ...]:
    """Record a verdict that the provider's webhook brings; `owner` is the execution that goes on with it."""
    return (
        reviews.event_marker(event, settlement, now),
        reviews.verdict_entry(settlement, verdict, now),
        reviews.decide(settlement, verdict, owner, now, terms),
    )


def release(settlement: Settlement, terms: Terms, now: datetime) -> Posting:
    """Move the net amount from escrow to the payee. The fee stays behind: collecting it can never fail."""
    return Posting(
        entry=items.transfer_entry(
            settlement,
            Step.RELEASE,
            Transfer(debit=rows.escrow(settlement.key), credit=settlement.payee, amount=settlement.net),
            now,
        ),
        settlement=items.advance(settlement, Step.RELEASE, escrow_change=-settlement.net, now=now),
        balance=items.credit_payee(settlement, terms.highest_balances.get(settlement.currency)),
    )


def fee(settlement: Settlement, now: datetime) -> Posting:
    """Move what is left in escrow to the fees, and finish: SETTLED commits with the last movement."""
    return Posting(
        entry=items.transfer_entry(
            settlement,
            Step.FEE,
            Transfer(
                debit=rows.escrow(settlement.key),
                credit=rows.fees(settlement.currency),
                amount=settlement.fee,
            ),
            now,
        ),
        settlement=items.advance(settlement, Step.FEE, escrow_change=-settlement.fee, now=now),
        counted="Settled",
    )


def settled(settlement: Settlement, claimed_at: str, fee_entry: Mapping[str, str]) -> Row:
    """The settlement's row as the fee's transaction leaves it, known without reading it back."""
    return {
        "status": Status.SETTLED,
        "payer": settlement.payer,
        "payee": settlement.payee,
        "amount": settlement.amount,
        "fee": settlement.fee,
        "currency": settlement.currency,
        "escrow": 0,
        "steps": set(Step),
        "claimed_at": claimed_at,
        "finished_at": fee_entry["posted_at"],
    }
