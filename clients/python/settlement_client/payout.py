import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from settlement_client.errors import InvalidRequest, MalformedAnswer
from settlement_client.fields import Fields, object_of
from settlement_client.outcome import Action, Next
from settlement_client.request import ACCOUNT, CURRENCY, KEY, is_amount, matches, plain

_DESTINATION = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PATTERNS = {"key": KEY, "account": ACCOUNT, "currency": CURRENCY, "destination": _DESTINATION}


@dataclass(frozen=True, kw_only=True)
class Payout:
    """One payout. `destination` is the id of a payee's bank account. Raises InvalidRequest.

    Checks only the contract's schema. The stack checks both accounts, limits, and the currency's decimals.
    """

    key: str
    account: str
    amount: Decimal | str
    currency: str
    destination: str

    def __post_init__(self) -> None:
        if problems := [*self._problems()]:
            raise InvalidRequest("; ".join(problems))

    def to_json(self) -> str:
        """Return the payout as JSON, with the amount as a decimal string."""
        return json.dumps({name: plain(value) for name, value in vars(self).items()})

    def _problems(self) -> Iterator[str]:
        for name, pattern in _PATTERNS.items():
            if not matches(pattern, getattr(self, name)):
                yield f"{name}: must be a string that matches ^{pattern.pattern}$"
        if not is_amount(self.amount):
            yield "amount: must be a Decimal or a decimal string such as '48.20', never a float"
        elif Decimal(self.amount) == 0:
            yield "amount: must be greater than zero"


class PayoutStatus(StrEnum):
    RESERVED = "RESERVED"
    SENDING = "SENDING"
    UNKNOWN = "UNKNOWN"
    ACCEPTED = "ACCEPTED"
    PAID = "PAID"
    CONFIRMED = "CONFIRMED"
    REFUSED = "REFUSED"
    RETURNED = "RETURNED"
    LIMBO = "LIMBO"


_NEXT = {
    **dict.fromkeys((PayoutStatus.PAID, PayoutStatus.CONFIRMED), Action.NOTHING),
    **dict.fromkeys((PayoutStatus.REFUSED, PayoutStatus.RETURNED), Action.NEW_KEY),
}
"""The action of a status; every other status has SAME_KEY."""


@dataclass(frozen=True, kw_only=True)
class PayoutOutcome:
    """The state of a payout. A paid one may still come back. Unknown fields in the JSON are ignored."""

    key: str
    status: PayoutStatus
    account: str
    amount: Decimal
    currency: str
    destination: str
    reference: str
    """The payment's end-to-end id, by which the bank knows the payout."""

    attempts: int
    next: Next
    reserved_at: datetime
    paid_at: datetime | None
    ended_at: datetime | None
    trouble: str | None
    """The reason why two persons at the stack's operator must decide, or None."""

    @property
    def is_paid(self) -> bool:
        """Whether the bank has paid it, as far as is known. CONFIRMED: the bank's statement shows it."""
        return self.status in (PayoutStatus.PAID, PayoutStatus.CONFIRMED)

    @classmethod
    def from_json(cls, given: str | bytes | Mapping[str, Any]) -> "PayoutOutcome":
        """Return the payout in a JSON text or object. Raises MalformedAnswer, which names the field."""
        told = Fields(object_of(given, "payout"), "payout")
        status, advice = told.one_of("status", PayoutStatus), told.inner("next")
        action = advice.one_of("action", Action)
        if action is not _NEXT.get(status, Action.SAME_KEY):
            # A new key while the old one may still pay would pay twice.
            raise MalformedAnswer(f"payout.next.action: {action} contradicts the status {status}")
        return cls(
            key=told.text("key", KEY),
            status=status,
            account=told.text("account"),
            amount=told.amount("amount"),
            currency=told.text("currency"),
            destination=told.text("destination"),
            reference=told.text("reference"),
            attempts=told.count("attempts"),
            next=Next(action, advice.text("reason")),
            reserved_at=told.instant("reserved_at"),
            paid_at=told.instant("paid_at") if told.has("paid_at") else None,
            ended_at=told.instant("ended_at") if told.has("ended_at") else None,
            trouble=told.text("trouble") if told.has("trouble") else None,
        )
