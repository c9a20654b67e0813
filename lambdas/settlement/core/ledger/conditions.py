"""Conditions of the ledger's writes: each has a name, its meaning, and the values that it compares with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from settlement.core.ledger import keys
from settlement.core.model.saga import Step
from settlement.core.model.settlement import Settlement
from settlement.core.model.status import Status
from settlement.core.model.timestamps import timestamp


@dataclass(frozen=True)
class Condition:
    """A fragment of a condition expression, with the values of its placeholders."""

    expression: str
    values: Mapping[str, Any] = field(default_factory=dict)


ABSENT = Condition("attribute_not_exists(pk)")
"""No such row yet: this write is the first."""

EXISTS = Condition("attribute_exists(pk)")
"""The row exists: an update must not create one."""

NEVER_RESOLVED = Condition("attribute_not_exists(resolution)")
"""No person has decided on the settlement: a SETTLED one was not completed out of LIMBO."""

NO_PARTS = Condition("attribute_not_exists(reversed_in_part)")
"""Nothing of the settlement is reversed in part, by either layout of its row."""

NO_VERDICT = Condition("attribute_not_exists(verdict)")
"""The KYC provider has not decided."""

NOT_IN_REVIEW = Condition("attribute_not_exists(review)")
"""The payment is not in review."""

IN_REVIEW = Condition("attribute_exists(review)")
"""The payment is in review. It stays on the row once a reversal has begun: the status tells that."""

NOT_EXPIRED = Condition("attribute_not_exists(expired_at)")
"""Recovery has not expired this settlement. Fences off workers whose clock lags."""

LISTED_IN_FLIGHT = Condition("begins_with(gsi1pk, :in_flight)", {":in_flight": keys.IN_FLIGHT})
"""The index lists the settlement as in flight, not as in LIMBO."""

NOT_IN_LIMBO = Condition("(attribute_not_exists(limbo_cases) OR limbo_cases = :none)", {":none": 0})
"""No earlier settlement of this account is in LIMBO: it never had an open case, or the last one is closed."""

IN_LIMBO = Condition("limbo_cases >= :one", {":one": 1})
"""An open case blocks the account, so that one can be taken off. False if there is no such account."""

NOT_FROZEN = Condition("attribute_not_exists(frozen_at)")
"""No order has frozen the account, or the freeze is over."""

FROZEN = Condition("attribute_exists(frozen_at)")
"""An order has frozen the account."""

NOT_CLOSED = Condition("attribute_not_exists(closed_at)")
"""No order has closed the account."""

EMPTY = Condition("available = :nothing", {":nothing": 0})
"""The account has no money."""


PROPOSAL_OPEN = Condition("#status = :open", {":open": "OPEN"})
"""The proposal is neither carried out nor withdrawn."""


def status_is(status: Status) -> Condition:
    """The fence: the settlement has this status, and no other execution has moved it on."""
    placeholder = f":{status.value.lower()}"
    return Condition(f"#status = {placeholder}", {placeholder: status})


def status_as_expected(expected: Status) -> Condition:
    """Optimistic lock: the settlement still has the status that the order names."""
    return Condition("#status = :expected_status", {":expected_status": expected})


def same_request(settlement: Settlement) -> Condition:
    """The step has the very content with which the key was claimed."""
    return Condition("request_hash = :request_hash", {":request_hash": settlement.request_hash})


def owner_is(execution: str) -> Condition:
    """The execution that asks for the reversal still owns the settlement."""
    return Condition("#owner = :owner", {":owner": execution})


def is_still_of(owner: str) -> Condition:
    """Fencing token: the settlement has had no new owner since the caller read it.

    Its epoch does not tell: the execution of a compensation becomes the owner without a new one.
    """
    return Condition("#owner = :read_owner", {":read_owner": owner})


def case_unchanged(resolutions: int) -> Condition:
    """Optimistic lock: no resolution has been recorded since the caller read the row."""
    return Condition("resolutions = :resolutions", {":resolutions": resolutions})


def parts_are(parts: int) -> Condition:
    """Optimistic lock: so many parts are reversed, so that the next one is that of this order.

    By either layout of the row: it may have been migrated since it was read.
    """
    either = "(reversals_in_part = :earlier_parts OR parts = :earlier_parts)"
    return Condition(either, {":earlier_parts": parts})


def within_rest(highest_before: int) -> Condition:
    """No more is reversed in part than was released. The caller computes the bound."""
    return Condition("reversed_in_part <= :highest_before", {":highest_before": highest_before})


def no_later_case(number: int) -> Condition:
    """No execution waits for the decision on a later case of LIMBO."""
    return Condition("(attribute_not_exists(pk) OR #case <= :case)", {":case": number})


def digest_is(digest: str) -> Condition:
    """The proposal is the one that the person was shown, of what the settlement was then."""
    return Condition("seen = :digest", {":digest": digest})


def not_yet(person: str) -> Condition:
    """The person has neither proposed it nor approved it."""
    return Condition("NOT contains(persons, :me)", {":me": person})


def approvals_are(count: int) -> Condition:
    """Optimistic lock: no other person has approved since the caller read the proposal."""
    return Condition("approvals = :approvals", {":approvals": count})


def still_valid(now: datetime) -> Condition:
    """The proposal has not expired."""
    return Condition(":now < valid_until", {":now": timestamp(now)})


def replaces(number: int) -> Condition:
    """Optimistic lock: the latest proposal, found void or closed, is the one of this number."""
    return Condition("proposal_number = :number", {":number": number})


def this_review(reference: str) -> Condition:
    """No review is open, or the open one is on the verification with this reference."""
    return Condition("(attribute_not_exists(review) OR review = :review)", {":review": reference})


def version_unchanged(version: int) -> Condition:
    """Optimistic lock: no sweep has folded anything of this minute since the caller read the row."""
    return Condition("version = :was", {":was": version})


def listed_at(sort_key: str) -> Condition:
    """The index lists the settlement as it did when the caller found it there."""
    return Condition("gsi1sk = :listed", {":listed": sort_key})


def overdue(now: datetime) -> Condition:
    """The deadline has passed."""
    return Condition("deadline_at <= :now", {":now": timestamp(now)})


def before_deadline(now: datetime) -> Condition:
    """The deadline lies ahead. A condition of every step up to the release, but of none after it."""
    return Condition(":now < deadline_at", {":now": timestamp(now)})


def committed(step: Step) -> Condition:
    """`step` has committed: the next one may, and there is something to reverse."""
    return Condition(f"attribute_exists({step.slot})")


def not_committed(step: Step) -> Condition:
    """`step` has not committed: its slot is free, and each slot is written once."""
    return Condition(f"attribute_not_exists({step.slot})")


def not_reversed(step: Step) -> Condition:
    """`step` is neither reversed nor covered by a write-off."""
    return Condition(f"attribute_not_exists({step.reversal_slot})")


def is_undone(step: Step) -> Condition:
    """`step` has never committed, or is reversed or covered by a write-off."""
    return Condition(f"(attribute_not_exists({step.slot}) OR attribute_exists({step.reversal_slot}))")


def escrow_holds(amount: int) -> Condition:
    """The escrow holds exactly this amount (minor units), so that the write empties it."""
    return Condition("escrow = :held", {":held": amount})


def sequence_is(number: int) -> Condition:
    """No event has come since the row was looked at: an optimistic lock over all that its events tell."""
    return Condition("#sequence = :seen", {":seen": number})


def same_currency(currency: str) -> Condition:
    """The account is kept in the currency of the movement. False if there is no such account."""
    return Condition("currency = :currency", {":currency": currency})


def sufficient(amount: int) -> Condition:
    """The account covers the debit (minor units): no balance ever goes below zero."""
    return Condition("available >= :amount", {":amount": amount})


def below_cap(highest_before: int) -> Condition:
    """The credit stays within the stage's highest balance. The caller computes the bound."""
    return Condition("available <= :highest_before", {":highest_before": highest_before})
