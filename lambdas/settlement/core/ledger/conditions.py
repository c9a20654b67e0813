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
    expression: str
    values: Mapping[str, Any] = field(default_factory=dict)


ABSENT = Condition("attribute_not_exists(pk)")

EXISTS = Condition("attribute_exists(pk)")
"""Require that the row exists: an update would create it."""

NEVER_RESOLVED = Condition("attribute_not_exists(resolution)")
"""Require that no LIMBO case was resolved. Then a SETTLED settlement was never in LIMBO."""

NO_PARTS = Condition("attribute_not_exists(reversed_in_part)")
"""Require that no part was reversed. Works for both row layouts."""

NO_VERDICT = Condition("attribute_not_exists(verdict)")

NOT_IN_REVIEW = Condition("attribute_not_exists(review)")

IN_REVIEW = Condition("attribute_exists(review)")
"""Require a `review` on the row. Check the status, too: `review` stays when a reversal begins."""

NOT_EXPIRED = Condition("attribute_not_exists(expired_at)")
"""Require that recovery has not expired the settlement. It stops workers whose clock lags."""

LISTED_IN_FLIGHT = Condition("begins_with(gsi1pk, :in_flight)", {":in_flight": keys.IN_FLIGHT})

NOT_IN_LIMBO = Condition("(attribute_not_exists(limbo_cases) OR limbo_cases = :none)", {":none": 0})

IN_LIMBO = Condition("limbo_cases >= :one", {":one": 1})
"""Require an open LIMBO case. False for a missing account."""

NOT_FROZEN = Condition("attribute_not_exists(frozen_at)")

FROZEN = Condition("attribute_exists(frozen_at)")

NOT_CLOSED = Condition("attribute_not_exists(closed_at)")

EMPTY = Condition("available = :nothing", {":nothing": 0})


PROPOSAL_OPEN = Condition("#status = :open", {":open": "OPEN"})


def status_is(status: Status) -> Condition:
    """Require a status: another execution may have moved the settlement."""
    placeholder = f":{status.value.lower()}"
    return Condition(f"#status = {placeholder}", {placeholder: status})


def status_as_expected(expected: Status) -> Condition:
    return Condition("#status = :expected_status", {":expected_status": expected})


def same_request(settlement: Settlement) -> Condition:
    return Condition("request_hash = :request_hash", {":request_hash": settlement.request_hash})


def owner_is(execution: str) -> Condition:
    return Condition("#owner = :owner", {":owner": execution})


def is_still_of(owner: str) -> Condition:
    """Require the owner that was read (a fencing token).

    The epoch is not a substitute: a compensation takes over without a new epoch.
    """
    return Condition("#owner = :read_owner", {":read_owner": owner})


def case_unchanged(resolutions: int) -> Condition:
    return Condition("resolutions = :resolutions", {":resolutions": resolutions})


def parts_are(parts: int) -> Condition:
    """Require that `parts` parts were reversed. A migration may run, so both row layouts are accepted."""
    either = "(reversals_in_part = :earlier_parts OR parts = :earlier_parts)"
    return Condition(either, {":earlier_parts": parts})


def within_rest(highest_before: int) -> Condition:
    return Condition("reversed_in_part <= :highest_before", {":highest_before": highest_before})


def no_later_case(number: int) -> Condition:
    return Condition("(attribute_not_exists(pk) OR #case <= :case)", {":case": number})


def digest_is(digest: str) -> Condition:
    """Require the digest that the person saw. It covers proposal and settlement."""
    return Condition("seen = :digest", {":digest": digest})


def not_yet(person: str) -> Condition:
    return Condition("NOT contains(persons, :me)", {":me": person})


def approvals_are(count: int) -> Condition:
    return Condition("approvals = :approvals", {":approvals": count})


def still_valid(now: datetime) -> Condition:
    return Condition(":now < valid_until", {":now": timestamp(now)})


def replaces(number: int) -> Condition:
    """Require that the latest proposal has this number. The caller has found that proposal void or closed."""
    return Condition("proposal_number = :number", {":number": number})


def this_review(reference: str) -> Condition:
    return Condition("(attribute_not_exists(review) OR review = :review)", {":review": reference})


def version_unchanged(version: int) -> Condition:
    return Condition("version = :was", {":was": version})


def listed_at(sort_key: str) -> Condition:
    return Condition("gsi1sk = :listed", {":listed": sort_key})


def overdue(now: datetime) -> Condition:
    return Condition("deadline_at <= :now", {":now": timestamp(now)})


def before_deadline(now: datetime) -> Condition:
    """Require that the deadline is ahead. Only the steps up to the release need it."""
    return Condition(":now < deadline_at", {":now": timestamp(now)})


def committed(step: Step) -> Condition:
    return Condition(f"attribute_exists({step.slot})")


def not_committed(step: Step) -> Condition:
    """Require that the step's slot is empty. Each slot is written once."""
    return Condition(f"attribute_not_exists({step.slot})")


def not_reversed(step: Step) -> Condition:
    return Condition(f"attribute_not_exists({step.reversal_slot})")


def is_undone(step: Step) -> Condition:
    return Condition(f"(attribute_not_exists({step.slot}) OR attribute_exists({step.reversal_slot}))")


def escrow_holds(amount: int) -> Condition:
    return Condition("escrow = :held", {":held": amount})


def sequence_is(number: int) -> Condition:
    return Condition("#sequence = :seen", {":seen": number})


def same_currency(currency: str) -> Condition:
    """Require an account in `currency`. A missing account fails."""
    return Condition("currency = :currency", {":currency": currency})


def sufficient(amount: int) -> Condition:
    return Condition("available >= :amount", {":amount": amount})


def below_cap(highest_before: int) -> Condition:
    return Condition("available <= :highest_before", {":highest_before": highest_before})
