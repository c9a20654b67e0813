from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from settlement_client.errors import MalformedAnswer
from settlement_client.fields import Fields, object_of
from settlement_client.request import KEY


class Status(StrEnum):
    PROCESSING = "PROCESSING"
    SETTLED = "SETTLED"
    REJECTED = "REJECTED"
    COMPENSATING = "COMPENSATING"
    COMPENSATED = "COMPENSATED"
    LIMBO = "LIMBO"


class Action(StrEnum):
    """The caller's next action. A program may act on it alone."""

    NOTHING = "nothing"
    SAME_KEY = "same_key"
    NEW_KEY = "new_key"


_FINAL = (Status.SETTLED, Status.REJECTED, Status.COMPENSATED)
_NEXT = {
    Status.SETTLED: (Action.NOTHING,),
    Status.REJECTED: (Action.NEW_KEY,),
    Status.COMPENSATED: (Action.NEW_KEY, Action.NOTHING),
}
"""The actions of a final status. Every other status allows only SAME_KEY."""


@dataclass(frozen=True)
class Next:
    action: Action
    reason: str


@dataclass(frozen=True)
class Failure:
    """Why a payment does not settle. Later versions may add errors."""

    step: str
    error: str
    cause: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The state of a settlement. Unknown fields in the JSON are ignored."""

    key: str
    status: Status
    payer: str
    payee: str
    amount: Decimal
    fee: Decimal
    currency: str
    escrow: Decimal
    steps: tuple[str, ...]
    reversed: tuple[str, ...]
    failure: Failure | None
    next: Next
    replayed: bool
    claimed_at: datetime
    finished_at: datetime | None
    covered: tuple[str, ...] = ()
    """Reversed steps paid by the losses account. If `release` is among them, the payee keeps the money."""

    reversed_in_part: Decimal | None = None
    reference: str | None = None
    metadata: Mapping[str, str] | None = field(default=None, hash=False)

    @property
    def is_final(self) -> bool:
        """Whether the status is final. A person may still reverse a SETTLED payment."""
        return self.status in _FINAL

    @property
    def is_paid(self) -> bool:
        """Whether the payment stands. It is SETTLED, and reversals in part have not returned all of it."""
        return self.status is Status.SETTLED and (self.reversed_in_part or 0) < self.amount - self.fee

    @classmethod
    def from_json(cls, given: str | bytes | Mapping[str, Any]) -> "Outcome":
        """Return the outcome in a JSON text or object. Raises MalformedAnswer with the field."""
        told = Fields(object_of(given, "outcome"), "outcome")
        status, advice = told.one_of("status", Status), told.inner("next")
        action = advice.one_of("action", Action)
        if action not in _NEXT.get(status, (Action.SAME_KEY,)):
            # A new key while the old one may still pay would pay twice.
            raise MalformedAnswer(f"outcome.next.action: {action} contradicts the status {status}")
        return cls(
            key=told.text("key", KEY),
            status=status,
            payer=told.text("payer"),
            payee=told.text("payee"),
            amount=told.amount("amount"),
            fee=told.amount("fee"),
            currency=told.text("currency"),
            escrow=told.amount("escrow"),
            steps=told.texts("steps"),
            reversed=told.texts("reversed"),
            covered=told.texts("covered") if told.has("covered") else (),
            failure=_failure(told.inner("failure")) if told.is_set("failure") else None,
            next=Next(action, advice.text("reason")),
            replayed=told.flag("replayed"),
            claimed_at=told.instant("claimed_at"),
            finished_at=told.instant("finished_at") if told.is_set("finished_at") else None,
            reversed_in_part=told.amount("reversed_in_part") if told.has("reversed_in_part") else None,
            reference=told.text("reference") if told.has("reference") else None,
            metadata=told.mapping("metadata") if told.has("metadata") else None,
        )


def _failure(told: Fields) -> Failure:
    return Failure(told.text("step"), told.text("error"), told.text("cause"))
