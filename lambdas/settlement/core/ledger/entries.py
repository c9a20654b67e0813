"""Append-only rows. A journal entry moves money; evidence records a fact."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Transfer, Write, put
from settlement.core.model import accounts
from settlement.core.model.errors import IdempotencyConflict, SettlementError
from settlement.core.model.settlement import Settlement
from settlement.core.model.timestamps import timestamp


def transfer(settlement: Settlement, step: str, moved: Transfer, now: datetime) -> Write:
    """Build a transfer's journal entry. Its condition only prevents overwriting.

    The settlement's row records the step, and so prevents a second transfer.
    """
    incoming = moved.credit == accounts.escrow(settlement.key)
    account, side = (moved.debit, "debit") if incoming else (moved.credit, "credit")
    posted_at = timestamp(now)
    row = {
        **keys.entry(account, posted_at, settlement.key, step),
        "step": step,
        "posted_at": posted_at,
        "request_hash": settlement.request_hash,
        "debit": moved.debit,
        "credit": moved.credit,
        "side": side,
        "amount": moved.amount,
        "currency": settlement.currency,
    }
    return put(row, on_failure=lambda entry: IdempotencyConflict.of_key(settlement.key))


def evidence(settlement: Settlement, step: str, content: Mapping[str, object], now: datetime) -> Write:
    """Build the record of a fact that moves no money. A repeated put finds the first record.

    The orders' index lists a record with `by`, which only a person's order has.
    """

    def meaning(found: Row | None) -> SettlementError | AlreadyApplied:
        if found and found["request_hash"] == settlement.request_hash:
            return AlreadyApplied(found)
        return IdempotencyConflict.of_key(settlement.key)

    return put(_evidence(settlement, step, content, now), on_failure=meaning)


def _evidence(
    settlement: Settlement, step: str, content: Mapping[str, object], now: datetime
) -> dict[str, Any]:
    posted_at = timestamp(now)
    return {
        **keys.evidence(settlement.key, step),
        "step": str(step),
        "posted_at": posted_at,
        "request_hash": settlement.request_hash,
        **content,
        **(keys.orders_index(posted_at) if "by" in content else {}),
    }
