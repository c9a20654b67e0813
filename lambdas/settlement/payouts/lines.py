"""The list of the bank's lines that name a payout and are not booked yet.

A statement's reader puts and lists such a line in one transaction. FollowPayouts books it, and takes it
off the list. A refused line stays listed, with the reason, until booked to a payout or order.
"""

from typing import Any

from settlement.bank.matching import Recorded
from settlement.core.ledger import keys
from settlement.core.ledger.conditions import EXISTS
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Write, placeholders, put, update
from settlement.payouts.payout import reference_in


def listed(recorded: Recorded) -> Write | None:
    """List a line if any reference has the form of a payout's."""
    if not any(map(reference_in, recorded.references)):
        return None
    line = recorded.line
    row = {**keys.payout_line(line.identity), **keys.payout_lines_index(line.booked), "booked": line.booked}
    return put(row, on_failure=AlreadyApplied)


def booked(identity: str) -> Write:
    return update(
        keys.payout_line(identity),
        "REMOVE gsi1pk, gsi1sk, refused",
        conditions=[EXISTS],
        on_failure=_gone,
    )


def refused(identity: str, booked_on: str, why: str) -> Write:
    return update(
        keys.payout_line(identity),
        "SET gsi1pk = :gsi1pk, gsi1sk = :gsi1sk, refused = :refused",
        values=placeholders(_refusal(booked_on, why)),
        conditions=[EXISTS],
        on_failure=_gone,
    )


def is_refused(row: Row, booked_on: str, why: str) -> bool:
    """Whether a row of the list already has this refusal and day."""
    return _refusal(booked_on, why).items() <= row.items()


def _refusal(booked_on: str, why: str) -> dict[str, str]:
    return {**keys.payout_lines_index(booked_on, is_refused=True), "refused": why}


def _gone(found: Any) -> AlreadyApplied:
    return AlreadyApplied(found)


def identity_of(listed_row: Row) -> str:
    return keys.subject(listed_row)[1]
