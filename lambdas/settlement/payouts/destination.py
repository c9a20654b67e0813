"""A payee's bank account: added by one person, confirmed by another, payable after a delay.

Its data never changes. Any one person may freeze it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.conditions import EXISTS, NOT_FROZEN, Condition
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
from settlement.core.model.stored import MalformedRow, sound, subject_of
from settlement.core.model.timestamps import timestamp
from settlement.http.caller import Caller, person_of
from settlement.payouts.iban import is_iban
from settlement.payouts.payout import DESTINATION, HOLDER_LENGTH_MAX, Payout, is_holder, is_time

_FIELDS = ("id", "account", "iban", "holder", "reason")


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
    def from_row(cls, row: Mapping[str, Any]) -> "Destination":
        """Raises MalformedRow."""
        row = sound(row)
        texts = {name: row[name] for name in _REQUIRED} | {name: row[name] for name in _TIMES if name in row}
        if not all(isinstance(text, str) for text in texts.values()):
            raise MalformedRow(f"{subject_of(row)}: {', '.join(sorted(texts))} must be texts")
        found = cls(id=keys.subject(row)[1], **texts)
        if not (is_iban(found.iban) and is_holder(found.holder)):
            raise MalformedRow(f"{subject_of(row)}: iban and holder must be those of a bank account")
        times = (found.added_at, found.payable_from, found.frozen_at)
        if not all(is_time(moment) for moment in times if moment is not None):
            raise MalformedRow(f"{subject_of(row)}: its times must be in UTC with milliseconds")
        if (found.confirmed_by is None) != (found.payable_from is None):
            raise MalformedRow(f"{subject_of(row)}: confirmed_by and payable_from must be there together")
        return found

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
    """Put the fields that `parse_destination` returned."""

    def meaning(found: Row) -> SettlementError | AlreadyApplied:
        is_same = all(found.get(name) == given[name] for name in ("account", "iban", "holder"))
        return AlreadyApplied(found) if is_same else IdempotencyConflict.of_key(given["id"])

    row = {
        **keys.destination(given["id"]),
        **{name: given[name] for name in _FIELDS if name != "id"},
        "added_by": caller.by,
        "added_at": timestamp(now),
        **caller.proof,
    }
    return put(row, on_failure=meaning)


def confirm(found: Destination, shown_iban: str, caller: Caller, rest: timedelta, now: datetime) -> Write:
    """Raises DestinationRefused."""
    if shown_iban != found.iban:
        raise DestinationRefused("iban: it is not the one of this destination")
    if person_of(found.added_by) == caller.person:
        raise DestinationRefused("by: who added a destination does not confirm it")

    def meaning(row: Row | None) -> SettlementError | AlreadyApplied:
        if row is None:
            return DestinationRefused("destination: there is none with this id")
        state = Destination.from_row(row)
        if state.frozen_at is not None:
            return DestinationRefused("destination: it is frozen")
        if state.confirmed_by is not None and state.iban == shown_iban:
            return AlreadyApplied(row)
        return DestinationRefused("destination: it has changed since it was read")

    return update(
        keys.destination(found.id),
        "SET confirmed_by = :by, payable_from = :from",
        values={":by": caller.by, ":from": timestamp(now + rest)},
        conditions=[
            Condition("iban = :shown AND holder = :holder", {":shown": shown_iban, ":holder": found.holder}),
            Condition("added_by = :added_by", {":added_by": found.added_by}),
            Condition("attribute_not_exists(confirmed_by)"),
            NOT_FROZEN,
        ],
        on_failure=meaning,
    )


def freeze(name: str, caller: Caller, now: datetime) -> Write:

    def meaning(row: Row | None) -> SettlementError | AlreadyApplied:
        return AlreadyApplied(row) if row else DestinationRefused("destination: there is none with this id")

    return update(
        keys.destination(name),
        "SET frozen_at = :now, frozen_by = :by",
        values={":now": timestamp(now), ":by": caller.by},
        conditions=[EXISTS, NOT_FROZEN],
        on_failure=meaning,
    )


_REQUIRED = ("account", "iban", "holder", "added_by", "added_at")
_TIMES = ("confirmed_by", "payable_from", "frozen_at")
