"""The writes to the table: pure functions, pinned by golden vectors.

Every write stands beside the meaning of its condition's failure, decided from the row that stood in
the way. Values are plain Python (int, str, set of str); the store turns them into DynamoDB's types.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from settlement import rows
from settlement.conditions import (
    ABSENT,
    BEFORE_DEADLINE,
    BELOW_CAP,
    IN_PROCESS,
    NOT_IN_LIMBO,
    NOT_YET_COMMITTED,
    NOTHING_COMMITTED,
    PREVIOUS_COMMITTED,
    SAME_CURRENCY,
    SAME_REQUEST,
    SUFFICIENT,
)
from settlement.errors import (
    AccountInLimbo,
    AccountNotFound,
    CapExceeded,
    CurrencyMismatch,
    DeadlineExceeded,
    IdempotencyConflict,
    InsufficientFunds,
    SettlementError,
    StepFenced,
)
from settlement.request import Settlement
from settlement.rows import Row
from settlement.status import Status, Step
from settlement.terms import Terms
from settlement.writes import Standing, Write


def claim(settlement: Settlement, owner: str, now: datetime, terms: Terms) -> Write:
    """Take the key for `owner`, the name of the execution that will drive the settlement."""
    row = {
        **rows.settlement_key(settlement.key),
        "status": Status.PROCESSING,
        "escrow": 0,
        "payer": settlement.payer,
        "payee": settlement.payee,
        "amount": settlement.amount,
        "fee": settlement.fee,
        "currency": settlement.currency,
        "request_hash": settlement.request_hash,
        "owner": owner,
        "claimed_at": rows.timestamp(now),
        "deadline_at": rows.timestamp(now + timedelta(seconds=terms.deadline_seconds)),
        "recoveries": 0,
        **rows.in_flight_index(
            settlement.key, rows.timestamp(now + timedelta(seconds=terms.recover_after_seconds))
        ),
    }
    return _put(row, _standing)


def reject(settlement: Settlement, failure: Mapping[str, str], now: datetime) -> Write:
    """Refuse the settlement for good, which is possible only while nothing is held."""

    def refusal(row: Row | None) -> SettlementError | Standing:
        if row and row["status"] == Status.REJECTED and row["request_hash"] == settlement.request_hash:
            return Standing(row)
        return _fence_refusal(settlement, "reject", row)

    return Write(
        "Update",
        {
            "Key": rows.settlement_key(settlement.key),
            "UpdateExpression": (
                "SET #status = :rejected, #failure = :failure, finished_at = :now REMOVE gsi1pk, gsi1sk"
            ),
            "ConditionExpression": _all(IN_PROCESS, SAME_REQUEST, NOTHING_COMMITTED),
            "ExpressionAttributeNames": {"#status": "status", "#failure": "failure"},
            "ExpressionAttributeValues": {
                ":processing": Status.PROCESSING,
                ":request_hash": settlement.request_hash,
                ":rejected": Status.REJECTED,
                ":failure": dict(failure),
                ":now": rows.timestamp(now),
            },
        },
        refusal,
    )


def transfer_entry(
    settlement: Settlement, step: Step, *, debit: str, credit: str, amount: int, now: datetime
) -> Write:
    """The journal entry of a step that moves `amount` between the settlement's escrow and another account."""
    escrow = rows.escrow(settlement.key)
    account, side = (debit, "debit") if credit == escrow else (credit, "credit")
    posted_at = rows.timestamp(now)
    return _entry(
        settlement,
        step,
        posted_at,
        {
            "debit": debit,
            "credit": credit,
            "side": side,
            "amount": amount,
            "currency": settlement.currency,
            **rows.statement_index(account, settlement.key, step, posted_at),
        },
    )


def evidence_entry(settlement: Settlement, step: Step, evidence: Mapping[str, str], now: datetime) -> Write:
    """The journal entry of a step that moves nothing, but must be on record."""
    return _entry(settlement, step, rows.timestamp(now), evidence)


def advance(settlement: Settlement, step: Step, *, escrow_change: int, now: datetime) -> Write:
    """Record on the settlement's row that `step` commits, and what it moves into (+) or out of (-) escrow.

    The last step finishes the settlement in the same write.
    """
    conditions = [IN_PROCESS, SAME_REQUEST]
    values: dict[str, Any] = {
        ":processing": Status.PROCESSING,
        ":request_hash": settlement.request_hash,
        ":steps": {step.value},
        ":change": escrow_change,
    }
    if step.previous is None:
        conditions += [NOTHING_COMMITTED]
    else:
        conditions += [PREVIOUS_COMMITTED, NOT_YET_COMMITTED]
        values |= {":previous": step.previous, ":this": step}
    assignments = ["escrow = escrow + :change"]
    removals = ""
    if step is Step.FEE:
        assignments += ["#status = :settled", "finished_at = :now"]
        removals = " REMOVE gsi1pk, gsi1sk"
        values |= {":settled": Status.SETTLED}
    else:
        conditions += [BEFORE_DEADLINE]
    values |= {":now": rows.timestamp(now)}
    return Write(
        "Update",
        {
            "Key": rows.settlement_key(settlement.key),
            "UpdateExpression": f"SET {', '.join(assignments)}{removals} ADD steps :steps",
            "ConditionExpression": _all(*conditions),
            "ExpressionAttributeNames": {"#status": "status"},
            "ExpressionAttributeValues": values,
        },
        lambda row: _fence_refusal(settlement, step, row),
    )


def debit_payer(settlement: Settlement) -> Write:
    """Take the amount from the payer's available balance, if that is allowed."""

    def refusal(row: Row | None) -> SettlementError:
        if error := _account_refusal("payer", settlement.currency, row):
            return error
        if row and "limbo_keys" in row:
            return AccountInLimbo("payer: the account is in LIMBO and places no holds until that is resolved")
        return InsufficientFunds("payer: the account has too little available for this amount")

    return _balance(
        settlement.payer,
        "SET available = available - :amount",
        _all(SAME_CURRENCY, SUFFICIENT, NOT_IN_LIMBO),
        {":amount": settlement.amount, ":currency": settlement.currency},
        refusal,
    )


def credit_payee(settlement: Settlement, highest_balance: int | None) -> Write:
    """Give the net amount to the payee. An account in LIMBO may receive: that only helps."""
    conditions = [SAME_CURRENCY]
    values: Row = {":net": settlement.net, ":currency": settlement.currency}
    if highest_balance is not None:
        conditions += [BELOW_CAP]
        values |= {":highest_before": highest_balance - settlement.net}

    def refusal(row: Row | None) -> SettlementError:
        return _account_refusal("payee", settlement.currency, row) or CapExceeded(
            f"payee: the account would hold more than this stage allows in {settlement.currency}"
        )

    return _balance(settlement.payee, "SET available = available + :net", _all(*conditions), values, refusal)


def open_account(account: str, currency: str, available: int) -> Write:
    """A customer's new account, with what its first deposit brings. One that is there already stands."""
    return _put({**rows.account_key(account), "available": available, "currency": currency}, _standing)


def deposit_entry(key: str, account: str, amount: int, currency: str, now: datetime) -> Write:
    """The journal entry of money that comes to `account` from outside."""
    posted_at = rows.timestamp(now)
    return _put(
        {
            **rows.deposit_key(key),
            "step": "deposit",
            "posted_at": posted_at,
            "debit": rows.external(currency),
            "credit": account,
            "side": "credit",
            "amount": amount,
            "currency": currency,
            **rows.statement_index(account, key, "deposit", posted_at),
        },
        _standing,
    )


def _entry(settlement: Settlement, step: Step, posted_at: str, content: Mapping[str, Any]) -> Write:
    def refusal(row: Row | None) -> SettlementError | Standing:
        if row and row["request_hash"] == settlement.request_hash:
            return Standing(row)
        return _other_content(settlement)

    return _put(
        {
            **rows.entry_key(settlement.key, step),
            "step": step,
            "posted_at": posted_at,
            "request_hash": settlement.request_hash,
            **content,
        },
        refusal,
    )


def _put(item: Row, refusal: Callable[[Row | None], SettlementError | Standing]) -> Write:
    return Write("Put", {"Item": item, "ConditionExpression": ABSENT}, refusal)


def _balance(
    account: str,
    update: str,
    condition: str,
    values: Mapping[str, Any],
    refusal: Callable[[Row | None], SettlementError],
) -> Write:
    return Write(
        "Update",
        {
            "Key": rows.account_key(account),
            "UpdateExpression": update,
            "ConditionExpression": condition,
            "ExpressionAttributeValues": values,
        },
        refusal,
    )


def _standing(row: Row | None) -> Standing:
    return Standing(row or {})


def _fence_refusal(settlement: Settlement, step: str, row: Row | None) -> SettlementError:
    if row is None:
        return StepFenced(f"{step}: the key {settlement.key} was never claimed")
    if row["request_hash"] != settlement.request_hash:
        return _other_content(settlement)
    committed = sorted(row.get("steps", ()))
    in_turn = step in list(Step) and Step(step).previous in (None, *committed) and step not in committed
    if row["status"] == Status.PROCESSING and in_turn:
        return DeadlineExceeded(f"{step}: the settlement's deadline was {row['deadline_at']}")
    return StepFenced(
        f"{step}: the settlement is {row['status']} with steps [{', '.join(committed)}] committed"
    )


def _account_refusal(party: str, currency: str, row: Row | None) -> SettlementError | None:
    if row is None:
        return AccountNotFound(f"{party}: there is no such account")
    if row["currency"] != currency:
        return CurrencyMismatch(f"{party}: the account is kept in {row['currency']}, not in {currency}")
    return None


def _other_content(settlement: Settlement) -> IdempotencyConflict:
    return IdempotencyConflict(f"key: {settlement.key} was claimed by a request with other content")


def _all(*conditions: str) -> str:
    return " AND ".join(conditions)
