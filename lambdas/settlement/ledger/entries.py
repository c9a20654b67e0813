"""Journal entries: append-only, each with one debit and one credit, or evidence that moves nothing."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.ledger.transaction import AlreadyApplied, OnFailure, Transfer, Write, put
from settlement.model import accounts
from settlement.model.errors import IdempotencyConflict, SettlementError
from settlement.model.settlement import Settlement
from settlement.model.status import Step
from settlement.model.timestamps import timestamp
from settlement.model.verdict import Verdict


def transfer(
    settlement: Settlement,
    step: str,
    moved: Transfer,
    now: datetime,
    evidence: Mapping[str, str] | None = None,
) -> Write:
    """Build the entry of a transfer between the settlement's escrow and another account."""
    incoming = moved.credit == accounts.escrow(settlement.key)
    account, side = (moved.debit, "debit") if incoming else (moved.credit, "credit")
    content = {
        "debit": moved.debit,
        "credit": moved.credit,
        "side": side,
        "amount": moved.amount,
        "currency": settlement.currency,
        **keys.statement_index(account, settlement.key, step, timestamp(now)),
        **(evidence or {}),
    }
    return _entry(settlement, step, now, content, _replayed(settlement))


def evidence(settlement: Settlement, step: str, content: Mapping[str, str], now: datetime) -> Write:
    """Build the entry of a fact that moves nothing, but must be on record."""
    return _entry(settlement, step, now, content, _replayed(settlement))


def verdict(settlement: Settlement, decided: Verdict, now: datetime) -> Write:
    """Build the entry of a webhook's verdict. The same decision again is a replay, another one a conflict."""

    def meaning(entry: Row | None) -> SettlementError | AlreadyApplied:
        if entry is None or entry["request_hash"] != settlement.request_hash:
            return IdempotencyConflict.of_key(settlement.key)
        if entry["decision"] == decided.decision:
            return AlreadyApplied(entry)
        return IdempotencyConflict(f"decision: {entry['decision']} is on record, for good")

    return _entry(settlement, Step.VERIFY.value, now, decided.evidence(), meaning)


def deposit(key: str, account: str, amount: int, currency: str, now: datetime) -> Write:
    """Build the entry of money that comes to `account` from outside, in minor units."""
    posted_at = timestamp(now)
    row = {
        **keys.deposit(key),
        "step": "deposit",
        "posted_at": posted_at,
        "debit": accounts.external(currency),
        "credit": account,
        "side": "credit",
        "amount": amount,
        "currency": currency,
        **keys.statement_index(account, key, "deposit", posted_at),
    }
    return put(row, on_failure=AlreadyApplied)


def _entry(
    settlement: Settlement, step: str, now: datetime, content: Mapping[str, Any], on_failure: OnFailure
) -> Write:
    row = {
        **keys.entry(settlement.key, step),
        "step": step,
        "posted_at": timestamp(now),
        "request_hash": settlement.request_hash,
        **content,
    }
    return put(row, on_failure)


def _replayed(settlement: Settlement) -> OnFailure:
    def meaning(entry: Row | None) -> SettlementError | AlreadyApplied:
        if entry and entry["request_hash"] == settlement.request_hash:
            return AlreadyApplied(entry)
        return IdempotencyConflict.of_key(settlement.key)

    return meaning
