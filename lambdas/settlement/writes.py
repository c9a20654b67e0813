"""A write and what its refusal means, as `items` and its like hand it to the store."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from settlement.conditions import ABSENT
from settlement.errors import SettlementError
from settlement.rows import Row

_ALIASES = {"#status": "status", "#failure": "failure", "#owner": "owner"}
"""Attributes that DynamoDB takes for words of its own; all are written as aliases."""


class Standing(Exception):
    """The write had been made before, by this or an earlier call: `row` is what it left, and it stands."""

    def __init__(self, row: Row) -> None:
        super().__init__()
        self.row = row


Refuse = Callable[[Row | None], SettlementError | Standing]
"""What a failed condition means, given the row that stood in the way (None: no row)."""


@dataclass(frozen=True)
class Write:
    """One conditional write. `refusal` says what its failed condition means."""

    action: Literal["Put", "Update"]
    parameters: Mapping[str, Any]
    refusal: Refuse


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """What moves from one account to another, in minor units."""

    debit: str
    credit: str
    amount: int


@dataclass(frozen=True)
class Posting:
    """One step's transaction, in this order: journal entry, settlement, customer balance.

    The last is missing where no customer's balance moves. No entry goes without its fence, the second.
    `counted` names the metric of an outcome that the transaction brings about.
    """

    entry: Write
    settlement: Write
    balance: Write | None = None
    counted: str | None = None

    @property
    def writes(self) -> tuple[Write, ...]:
        """The transaction's items; DynamoDB gives its reasons for a refusal in the same order."""
        return tuple(write for write in (self.entry, self.settlement, self.balance) if write)


def put(item: Row, refusal: Refuse) -> Write:
    """Put a row where there is none yet."""
    return Write("Put", {"Item": item, "ConditionExpression": ABSENT}, refusal)


def update(
    key: Row,
    expression: str,
    condition: str,
    *conditions: str,
    values: Mapping[str, Any],
    refusal: Refuse,
) -> Write:
    """Update a row if all the conditions hold: no row is written without any."""
    condition = " AND ".join((condition, *conditions))
    parameters: dict[str, Any] = {
        "Key": key,
        "UpdateExpression": expression,
        "ConditionExpression": condition,
        "ExpressionAttributeValues": values,
    }
    words = f"{expression} {condition}"
    if aliases := {alias: name for alias, name in _ALIASES.items() if alias in words}:
        parameters["ExpressionAttributeNames"] = aliases
    return Write("Update", parameters, refusal)
