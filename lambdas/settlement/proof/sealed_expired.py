"""Expired entries, each implied by a slot of a settlement's row.

No signed entry proves the slot any more. The journal proves it.
"""

import hashlib
import json
from collections.abc import Iterator

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import accounts
from settlement.core.model.orders import Decision
from settlement.core.model.status import Step
from settlement.core.model.stored import MalformedRow
from settlement.proof import judgement, rows, settlement_row
from settlement.proof.retention import Retention
from settlement.proof.sealed_spool import Told
from settlement.retention import expiry
from settlement.retention.expiry import EXPIRES

SLOT, COVERED = "SLOT", "COVERED"
"""The table's facts about an expired entry: it existed, or a write-off replaced it."""

_CONTENT = (
    *("pk", "sk", "step", "posted_at", "request_hash"),
    *("debit", "credit", "side", "amount", "currency"),
)
"""Attributes of an entry that the journal's line repeats."""


def told_by(row: Row, retention: Retention) -> Iterator[Told]:
    if retention.days is None:
        return
    try:
        if keys.is_settlement(row):
            yield from _slots(row, retention)
        elif keys.is_evidence(row):
            yield from _covered(row)
    except MalformedRow:  # the proof reports it
        return


def content_of_line(row: Row, retention: Retention) -> str | None:
    """The digest of a sealed, expired entry. None for any other row."""
    if EXPIRES not in row or not expiry.may_expire(row, retention.days):
        return None
    return _digest(row) if row[EXPIRES] <= retention.gone_until else None


def _slots(row: Row, retention: Retention) -> Iterator[Told]:
    for entry in judgement.entries_of(settlement_row.movements(row)):
        if retention.may_lack(entry):
            told = judgement.row_of(entry)
            at = (None, None, entry.posted_at)
            yield Told(told["pk"], told["sk"], SLOT, *at, content=_digest(told))


def _covered(row: Row) -> Iterator[Told]:
    found = rows.evidence(row)
    if found.account is None or found.decision != Decision.WRITE_OFF:
        return
    step = Step.RELEASE if accounts.is_customer(found.account) else Step.FEE
    key = keys.entry(found.account, found.posted_at, found.key, step.reversal)
    yield Told(key["pk"], key["sk"], COVERED, None, None, found.posted_at)


def _digest(row: Row) -> str:
    return hashlib.sha256(json.dumps([row.get(name) for name in _CONTENT]).encode()).hexdigest()
