"""Deposits for the bank's lines without an order: one person proposes them, another books them.

BANK_ORDER#<key> PROPOSED: each line with its account; APPROVED: by whom

Each deposit's key follows from its line, so a booking that dies half-way is repeated.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from settlement.accounts.order import AccountOrder, OrderKind
from settlement.bank.matching import BankLine
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Write, put
from settlement.core.model.errors import IdempotencyConflict, InvalidRequest, ProposalRefused, SettlementError
from settlement.core.model.orders import fields_of, one_line
from settlement.core.model.request import ACCOUNT
from settlement.core.model.stored import MalformedRow, subject_of
from settlement.core.model.timestamps import timestamp
from settlement.http.caller import Caller, person_of

PROPOSE, BOOK = "propose-lines", "book-lines"

LINES_MAX = 100
"""Maximum lines: each is a transaction, and the function has some seconds."""

_DIGITS = 24
_IDENTITY = re.compile(r"[0-9a-f]{64}", re.ASCII)
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def key_of(digest: str) -> str:
    """Derive the key of a line's order, or of a proposal, from its digest."""
    return f"bank-{digest[:_DIGITS]}"


class Proposed(NamedTuple):
    """A proposal: lines to book, each with its account. `by` is the proposer's ARN."""

    key: str
    lines: Mapping[str, str]
    reason: str
    by: str

    @property
    def digest(self) -> str:
        """SHA-256 of the lines with their accounts, for the second person's approval."""
        return hashlib.sha256(_CANONICAL.encode(dict(self.lines)).encode()).hexdigest()

    def deposit(self, line: BankLine, approved_by: str) -> AccountOrder:
        """Build a line's deposit. A repeated booking, even by another person, builds the same deposit."""
        return AccountOrder(
            key=key_of(line.identity),
            order=OrderKind.DEPOSIT,
            account=self.lines[line.identity],
            currency=line.currency,
            amount=line.amount,
            reference=line.reference or line.bank_reference,
            by=approved_by,
            reason=self.reason,
        )


def parse_proposal(raw: object, caller: Caller) -> Proposed:
    """Raises InvalidRequest, naming each wrong field."""
    content = fields_of(raw, ("key", "lines", "reason"))
    lines = content["lines"]
    if not isinstance(lines, dict) or not 1 <= len(lines) <= LINES_MAX:
        raise InvalidRequest(f"lines: must be 1 to {LINES_MAX} accounts by the line's identity")
    for identity, account in lines.items():
        if not _IDENTITY.fullmatch(identity):
            raise InvalidRequest("lines: each name must be a line's identity, a SHA-256")
        if not (isinstance(account, str) and ACCOUNT.fullmatch(account)):
            raise InvalidRequest(f"lines: the account of {identity} must match ^{ACCOUNT.pattern}$")
    return Proposed(content["key"], dict(lines), one_line(content["reason"], "reason"), caller.by)


def parse_booking(raw: object) -> tuple[str, str]:
    """Return the proposal's key and the shown digest. Raises InvalidRequest."""
    content = fields_of(raw, ("key", "digest"))
    if not (isinstance(content["digest"], str) and _IDENTITY.fullmatch(content["digest"])):
        raise InvalidRequest("digest: must be that of the proposal, a SHA-256")
    return content["key"], content["digest"]


def propose(one: Proposed, caller: Caller, now: datetime) -> Write:
    """Put a proposal. The row never changes; a different proposal needs a different key."""

    def meaning(found: Row) -> SettlementError | AlreadyApplied:
        is_same = all(found.get(name) == getattr(one, name) for name in ("digest", "by", "reason"))
        return AlreadyApplied(found) if is_same else IdempotencyConflict.of_key(one.key)

    told = {"lines": dict(one.lines), "digest": one.digest, "reason": one.reason, "by": one.by}
    return put({**keys.bank_proposed(one.key), **told, **_given(caller, now)}, on_failure=meaning)


def approve(one: Proposed, digest: str, caller: Caller, now: datetime) -> Write:
    """Put the first approval. Raises ProposalRefused if the caller may not approve."""
    if one.digest != digest:
        raise ProposalRefused("digest: the proposal has other lines than you were shown")
    if person_of(one.by) == caller.person:
        raise ProposalRefused("by: who proposed the lines does not book them")
    row = {**keys.bank_approved(one.key), "digest": digest, "by": caller.by, **_given(caller, now)}
    return put(row, on_failure=AlreadyApplied)


def proposed_of(row: Row) -> Proposed:
    """Raises MalformedRow."""
    lines, by, reason = row.get("lines"), row.get("by"), row.get("reason")
    if not (isinstance(lines, dict) and isinstance(by, str) and isinstance(reason, str)):
        raise MalformedRow(f"{subject_of(row)}: lines, by and reason must be those of a proposal")
    if not all(isinstance(account, str) for account in lines.values()):
        raise MalformedRow(f"{subject_of(row)}: lines must be accounts by identity")
    found = Proposed(keys.subject(row)[1], lines, reason, by)
    if row.get("digest") != found.digest:
        raise MalformedRow(f"{subject_of(row)}: digest is not that of its lines")
    return found


def _given(caller: Caller, now: datetime) -> dict[str, Any]:
    return {**caller.proof, "posted_at": timestamp(now)}
