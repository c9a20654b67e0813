"""A write and what its refusal means, as `items` hands it to the store."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from settlement.errors import SettlementError
from settlement.rows import Row


class Standing(Exception):
    """The write had been made before, by this or an earlier call: `row` is what it left, and it stands."""

    def __init__(self, row: Row) -> None:
        super().__init__()
        self.row = row


@dataclass(frozen=True)
class Write:
    """One conditional write. `refusal` says what its failed condition means, given the row in the way."""

    action: Literal["Put", "Update"]
    parameters: Mapping[str, Any]
    refusal: Callable[[Row | None], SettlementError | Standing]


@dataclass(frozen=True)
class Posting:
    """One step's transaction, in this order: journal entry, settlement, customer balance (if one moves)."""

    entry: Write
    settlement: Write
    balance: Write | None = None

    @property
    def writes(self) -> tuple[Write, ...]:
        """The transaction's items; DynamoDB gives its reasons for a refusal in the same order."""
        return (self.entry, self.settlement) + ((self.balance,) if self.balance else ())
