"""A payee's bank account: added by one person, confirmed by another, payable after a delay.

    DESTINATION#<id>   DESTINATION    added, and frozen by any one person
                       CONFIRMED      by another person
                       FROZEN#<time>  who froze it

All rows are signed. Their data never changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.conditions import EXISTS, NOT_FROZEN
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Write, put, update
from settlement.core.model.errors import (
    DestinationRefused,
    IdempotencyConflict,
    InvalidRequest,
    SettlementError,
)
from settlement.core.model.orders import one_line
from settlement.core.model.request import ACCOUNT, unknown_fields
from settlement.core.model.settlement import hash_of
from settlement.core.model.stored import MalformedRow, sound, subject_of
from settlement.core.model.timestamps import timestamp
from settlement.http.caller import Caller, person_of
from settlement.payouts.iban import is_iban
from settlement.payouts.payout import DESTINATION, HOLDER_LENGTH_MAX, Payout, is_holder, is_time

SHOWN = ("account", "iban", "holder")
"""The fields that a second person confirms: payer and bank account. Both rows have them."""

_FIELDS = ("id", *SHOWN, "reason")


@dataclass(frozen=True, kw_only=True)
class Destination:
    """A destination's row. `account` is the paying customer's."""

    id: str
    account: str
    iban: str = field(repr=False)
    holder: str = field(repr=False)
    added_by: str
    added_at: str
    confirmed_by: str | None = None
    payable_from: str | None = None
    frozen_at: str | None = None

    @classmethod
    def from_rows(cls, row: Mapping[str, Any], confirmed: Mapping[str, Any] | None) -> "Destination":
        """Read a destination, and the row of its confirmation, if any. Raises MalformedRow."""
        row, second = sound(row), sound(confirmed) if confirmed else None
        texts = {name: row[name] for name in _REQUIRED}
        texts |= {name: second[name] for name in _SECOND} if second else {}
        texts |= {"frozen_at": row["frozen_at"]} if "frozen_at" in row else {}
        if not all(isinstance(text, str) for text in texts.values()):
            raise MalformedRow(f"{subject_of(row)}: {', '.join(sorted(texts))} must be texts")
        found = cls(id=keys.subject(row)[1], **texts)
        if second and any(second[name] != row[name] for name in SHOWN):
            raise MalformedRow(f"{subject_of(row)}: another bank account was confirmed")
        if second and person_of(second["confirmed_by"]) == person_of(found.added_by):
            raise MalformedRow(f"{subject_of(row)}: one person added and confirmed it")
        if not (is_iban(found.iban) and is_holder(found.holder)):
            raise MalformedRow(f"{subject_of(row)}: iban and holder must be those of a bank account")
        times = (found.added_at, found.payable_from, found.frozen_at)
        if not all(is_time(moment) for moment in times if moment is not None):
            raise MalformedRow(f"{subject_of(row)}: its times must be in UTC with milliseconds")
        return found

    @property
    def paid_to(self) -> str:
        return paid_to(self.id, self.iban, self.holder)

    def refusal(self, payout: Payout, now: datetime) -> DestinationRefused | None:
        if self.account != payout.account:
            return DestinationRefused("destination: it is of another account")
        if self.frozen_at is not None:
            return DestinationRefused("destination: it is frozen")
        if self.payable_from is None:
            return DestinationRefused("destination: no second person has confirmed it")
        if timestamp(now) < self.payable_from:
            return DestinationRefused(f"destination: it may be paid from {self.payable_from}")
        return None


def paid_to(name: str, iban: str, holder: str) -> str:
    """SHA-256 of a bank account, in the signed entry of each reservation."""
    return hash_of({"destination": name, "iban": iban, "holder": holder})


def parse_destination(raw: object) -> dict[str, str]:
    """Raises InvalidRequest, naming each wrong field."""
    if not isinstance(raw, dict):
        raise InvalidRequest(f"destination: must be a JSON object with {', '.join(_FIELDS)}")
    problems = [*unknown_fields(raw.keys(), _FIELDS)]
    problems += [f"{name}: missing" for name in _FIELDS if name not in raw]
    for name, pattern in (("id", DESTINATION), ("account", ACCOUNT)):
        if name in raw and not (isinstance(raw[name], str) and pattern.fullmatch(raw[name])):
            problems.append(f"{name}: must be a string that matches ^{pattern.pattern}$")
    if "iban" in raw and not is_iban(raw["iban"]):
        problems.append("iban: must be an IBAN in capitals, without blanks")
    if "holder" in raw and not is_holder(raw["holder"]):
        problems.append(f"holder: must be printable text of 1 to {HOLDER_LENGTH_MAX} characters")
    if problems:
        raise InvalidRequest("; ".join(sorted(problems)))
    return {**raw, "reason": one_line(raw["reason"], "reason")}


def add(given: Mapping[str, str], caller: Caller, now: datetime) -> Write:
    """Put a destination with the fields that `parse_destination` returned."""

    def meaning(found: Row) -> SettlementError | AlreadyApplied:
        is_same = all(found.get(name) == given[name] for name in SHOWN)
        return AlreadyApplied(found) if is_same else IdempotencyConflict.of_key(given["id"])

    row = {
        **keys.destination(given["id"]),
        **{name: given[name] for name in _FIELDS if name != "id"},
        "added_by": caller.by,
        "added_at": timestamp(now),
        **keys.payout_orders_index(timestamp(now)),
        **caller.proof,
    }
    return put(row, on_failure=meaning)


def confirm(
    found: Destination, shown: Mapping[str, object], caller: Caller, rest: timedelta, now: datetime
) -> Write:
    """Confirm a destination. Raises DestinationRefused.

    `shown` has the fields SHOWN as the caller knows them.
    """
    if other := [name for name in SHOWN if shown[name] != getattr(found, name)]:
        raise DestinationRefused(f"{', '.join(other)}: not as on record for this destination")
    if person_of(found.added_by) == caller.person:
        raise DestinationRefused("by: who added a destination does not confirm it")
    if found.frozen_at is not None:
        raise DestinationRefused("destination: it is frozen")
    row = {
        **keys.destination_confirmed(found.id),
        **{name: getattr(found, name) for name in SHOWN},
        "confirmed_by": caller.by,
        "confirmed_at": timestamp(now),
        "payable_from": timestamp(now + rest),
        **keys.payout_orders_index(timestamp(now)),
        **caller.proof,
    }
    return put(row, on_failure=AlreadyApplied)


def freeze(name: str, caller: Caller, now: datetime) -> tuple[Write, ...]:
    at = timestamp(now)

    def meaning(row: Row | None) -> SettlementError | AlreadyApplied:
        return AlreadyApplied(row) if row else DestinationRefused("destination: there is none with this id")

    move = update(
        keys.destination(name),
        "SET frozen_at = :now, frozen_by = :by",
        values={":now": at, ":by": caller.by},
        conditions=[EXISTS, NOT_FROZEN],
        on_failure=meaning,
    )
    row = {
        **keys.destination_frozen(name, at),
        "by": caller.by,
        "posted_at": at,
        **keys.payout_orders_index(at),
        **caller.proof,
    }
    taken = DestinationRefused("destination: an order of this time is on record; freeze it again")
    return move, put(row, on_failure=lambda found: taken)


_REQUIRED = ("account", "iban", "holder", "added_by", "added_at")
_SECOND = ("confirmed_by", "payable_from")
