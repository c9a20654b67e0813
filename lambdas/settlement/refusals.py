"""What the row that stands in the way of a write means."""

from datetime import datetime

from settlement import rows
from settlement.errors import (
    AccountNotFound,
    CurrencyMismatch,
    DeadlineExceeded,
    IdempotencyConflict,
    SettlementError,
    StepFenced,
)
from settlement.request import Settlement
from settlement.rows import Row
from settlement.status import Status, Step
from settlement.writes import Standing


def standing(row: Row | None) -> Standing:
    """Whatever is there stands: the caller looks at it."""
    return Standing(row or {})


def fence_refusal(settlement: Settlement, step: str, row: Row | None) -> SettlementError:
    """Why the settlement's row does not admit a forward step."""
    if row is None:
        return StepFenced(f"{step}: the key {settlement.key} was never claimed")
    if row["request_hash"] != settlement.request_hash:
        return other_content(settlement)
    committed = sorted(row.get("steps", ()))
    in_turn = step in list(Step) and Step(step).previous in (None, *committed) and step not in committed
    in_turn = in_turn and not (step == Step.VERIFY and "verdict" in row)  # a rejection is no step
    if row["status"] == Status.PROCESSING and in_turn:
        return DeadlineExceeded(f"{step}: the settlement's deadline was {row['deadline_at']}")
    return StepFenced(
        f"{step}: the settlement is {row['status']} with steps [{', '.join(committed)}] committed"
    )


def check_admits(settlement: Settlement, step: Step, row: Row | None, now: datetime) -> None:
    """Raise what would refuse a forward step, before anything is done for it that cannot be undone."""
    refusal = fence_refusal(settlement, step, row)
    has_time = row and rows.timestamp(now) < row["deadline_at"] and "given_up_at" not in row
    if not (isinstance(refusal, DeadlineExceeded) and has_time):
        raise refusal


def account_refusal(party: str, currency: str, row: Row | None) -> SettlementError | None:
    """Why an account cannot take part in a settlement at all; None where that is not so."""
    return None if row and row["currency"] == currency else account_mismatch(party, currency, row)


def account_mismatch(party: str, currency: str, row: Row | None) -> SettlementError:
    """What is wrong with an account that is not one of the settlement's currency."""
    if row is None:
        return AccountNotFound(f"{party}: there is no such account")
    return CurrencyMismatch(f"{party}: the account is kept in {row['currency']}, not in {currency}")


def other_content(settlement: Settlement) -> IdempotencyConflict:
    """The key stands for another request."""
    return IdempotencyConflict(f"key: {settlement.key} was claimed by a request with other content")
