"""The writes to the table: pure functions, pinned by golden vectors.

Every write stands beside the meaning of its condition's failure, decided from the row that stood in
the way. Values are plain Python (int, str, set of str); the store turns them into DynamoDB's types.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from settlement import rows
from settlement.conditions import (
    BEFORE_DEADLINE,
    BELOW_CAP,
    IN_PROCESS,
    NOT_GIVEN_UP,
    NOT_IN_LIMBO,
    NOT_YET_COMMITTED,
    NOTHING_COMMITTED,
    PREVIOUS_COMMITTED,
    SAME_CURRENCY,
    SAME_REQUEST,
    SUFFICIENT,
)
from settlement.errors import AccountInLimbo, CapExceeded, InsufficientFunds, SettlementError
from settlement.refusals import account_refusal, fence_refusal, other_content, standing
from settlement.request import Settlement
from settlement.rows import Row
from settlement.status import Status, Step
from settlement.terms import Terms
from settlement.writes import Standing, Transfer, Write, put, update


def claim(settlement: Settlement, owner: str, now: datetime, terms: Terms) -> Write:
    """Take the key for `owner`, the name of the execution that will drive the settlement."""
    deadline = now + terms.time_to_settle(settlement.deadline_seconds)
    recover_at = min(deadline, now + terms.time_to_recover)
    row = {
        **rows.settlement_key(settlement.key),
        "status": Status.PROCESSING,
        "escrow": 0,
        **settlement.to_row(),
        "owner": owner,
        "claimed_at": rows.timestamp(now),
        "deadline_at": rows.timestamp(deadline),
        "recoveries": 0,
        **rows.in_flight_index(settlement.key, rows.timestamp(recover_at)),
    }
    return put(row, standing)


def reject(settlement: Settlement, failure: Mapping[str, str], now: datetime) -> Write:
    """Refuse the settlement for good, which is possible only while nothing is held."""

    def refusal(row: Row | None) -> SettlementError | Standing:
        if row and row["status"] == Status.REJECTED and row["request_hash"] == settlement.request_hash:
            return Standing(row)
        return fence_refusal(settlement, "reject", row)

    return update(
        rows.settlement_key(settlement.key),
        "SET #status = :rejected, #failure = :failure, finished_at = :now REMOVE gsi1pk, gsi1sk",
        *(IN_PROCESS, SAME_REQUEST, NOTHING_COMMITTED),
        values={
            ":processing": Status.PROCESSING,
            ":request_hash": settlement.request_hash,
            ":rejected": Status.REJECTED,
            ":failure": dict(failure),
            ":now": rows.timestamp(now),
        },
        refusal=refusal,
    )


def transfer_entry(
    settlement: Settlement,
    step: str,
    transfer: Transfer,
    now: datetime,
    evidence: Mapping[str, str] | None = None,
) -> Write:
    """The journal entry of what moves money between the settlement's escrow and another account."""
    escrow = rows.escrow(settlement.key)
    incoming = transfer.credit == escrow
    account, side = (transfer.debit, "debit") if incoming else (transfer.credit, "credit")
    posted_at = rows.timestamp(now)
    return _entry(
        settlement,
        step,
        posted_at,
        {
            "debit": transfer.debit,
            "credit": transfer.credit,
            "side": side,
            "amount": transfer.amount,
            "currency": settlement.currency,
            **rows.statement_index(account, settlement.key, step, posted_at),
            **(evidence or {}),
        },
    )


def evidence_entry(settlement: Settlement, step: str, evidence: Mapping[str, str], now: datetime) -> Write:
    """The journal entry of what moves nothing, but must be on record."""
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
        conditions += [BEFORE_DEADLINE, NOT_GIVEN_UP]
    values |= {":now": rows.timestamp(now)}
    return update(
        rows.settlement_key(settlement.key),
        f"SET {', '.join(assignments)}{removals} ADD steps :steps",
        *conditions,
        values=values,
        refusal=lambda row: fence_refusal(settlement, step, row),
    )


def debit_payer(settlement: Settlement) -> Write:
    """Take the amount from the payer's available balance, if that is allowed."""

    def refusal(row: Row | None) -> SettlementError:
        if error := account_refusal("payer", settlement.currency, row):
            return error
        if row and "limbo_keys" in row:
            return AccountInLimbo("payer: the account is in LIMBO and places no holds until that is resolved")
        return InsufficientFunds("payer: the account has too little available for this amount")

    return update(
        rows.account_key(settlement.payer),
        "SET available = available - :amount",
        *(SAME_CURRENCY, SUFFICIENT, NOT_IN_LIMBO),
        values={":amount": settlement.amount, ":currency": settlement.currency},
        refusal=refusal,
    )


def credit_payee(settlement: Settlement, highest_balance: int | None) -> Write:
    """Give the net amount to the payee. An account in LIMBO may receive: that only helps."""
    conditions = [SAME_CURRENCY]
    values: Row = {":net": settlement.net, ":currency": settlement.currency}
    if highest_balance is not None:
        conditions += [BELOW_CAP]
        values |= {":highest_before": highest_balance - settlement.net}

    def refusal(row: Row | None) -> SettlementError:
        return account_refusal("payee", settlement.currency, row) or CapExceeded(
            f"payee: the account would hold more than this stage allows in {settlement.currency}"
        )

    return update(
        rows.account_key(settlement.payee),
        "SET available = available + :net",
        *conditions,
        values=values,
        refusal=refusal,
    )


def open_account(account: str, currency: str, available: int) -> Write:
    """A customer's new account, with what its first deposit brings. One that is there already stands."""
    return put({**rows.account_key(account), "available": available, "currency": currency}, standing)


def deposit_entry(key: str, account: str, amount: int, currency: str, now: datetime) -> Write:
    """The journal entry of money that comes to `account` from outside."""
    posted_at = rows.timestamp(now)
    return put(
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
        standing,
    )


def _entry(settlement: Settlement, step: str, posted_at: str, content: Mapping[str, Any]) -> Write:
    def refusal(row: Row | None) -> SettlementError | Standing:
        if row and row["request_hash"] == settlement.request_hash:
            return Standing(row)
        return other_content(settlement)

    return put(
        {
            **rows.entry_key(settlement.key, step),
            "step": step,
            "posted_at": posted_at,
            "request_hash": settlement.request_hash,
            **content,
        },
        refusal,
    )
