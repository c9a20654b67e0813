"""Conditional writes, and the transaction of a step."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from settlement.core.ledger.conditions import ABSENT, Condition
from settlement.core.ledger.keys import Row
from settlement.core.model import accounts
from settlement.core.model.errors import SettlementError
from settlement.core.model.saga import SAGA, Party, Step
from settlement.core.model.settlement import Settlement

_ALIASES = {
    "#status": "status",
    "#failure": "failure",
    "#owner": "owner",
    "#case": "case",
    "#sequence": "sequence",
}
"""Aliases of the attributes whose names are reserved words of DynamoDB."""


class AlreadyApplied(Exception):
    """The write was applied before, by this or an earlier call, or the row is to be left as it is.

    `found` is the state of the row.
    """

    def __init__(self, found: Any) -> None:
        super().__init__()
        self.found = found


OnFailure = Callable[[Any], SettlementError | AlreadyApplied]
"""The meaning of a failed condition, given the state of the row that stands in the way (None: no row).

The state is a SettlementState, an AccountState, or for any other kind its row.
"""


@dataclass(frozen=True)
class Write:
    """One conditional write, and the meaning of its failed condition."""

    action: Literal["Put", "Update"]
    parameters: Mapping[str, Any]
    on_failure: OnFailure


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """A movement from one account to another, in minor units."""

    debit: str
    credit: str
    amount: int

    @classmethod
    def of(cls, settlement: Settlement, step: Step) -> "Transfer":
        """Return the movement of a step. Raises ValueError for one that moves no money."""
        moves = SAGA[step].moves
        if moves is None:
            raise ValueError(f"{step} moves no money")
        parties: Mapping[Party, str] = {
            "payer": settlement.payer,
            "payee": settlement.payee,
            "escrow": accounts.escrow(settlement.key),
            "fees": accounts.fees(settlement.currency),
        }
        amount: int = getattr(settlement, moves.amount)
        return cls(debit=parties[moves.debit], credit=parties[moves.credit], amount=amount)

    @property
    def reversed(self) -> "Transfer":
        """The movement back."""
        return Transfer(debit=self.credit, credit=self.debit, amount=self.amount)

    def change_of(self, account: str) -> int:
        """Return the change of the balance of one of the two accounts."""
        return self.amount if account == self.credit else -self.amount


@dataclass(frozen=True, kw_only=True)
class StepTransaction:
    """One step's transaction: evidence, settlement, entry, customer balance and proposal, in this order.

    `evidence` is None for a step that only moves money, `entry` for one that moves none, and `balance` if no
    customer's balance changes. `proposal` is written by a decision that several persons have approved.
    `metric` names the metric of an outcome that the transaction brings about.
    """

    evidence: Write | None = None
    settlement: Write
    entry: Write | None = None
    balance: Write | None = None
    proposal: Write | None = None
    metric: str | None = None

    @property
    def gate(self) -> Write:
        """The idempotency check: the evidence, or else the settlement's row with its slot for the step."""
        return self.evidence or self.settlement

    @property
    def writes(self) -> tuple[Write, ...]:
        """The transaction's items; DynamoDB gives the reasons of a cancellation in the same order."""
        writes = (self.evidence, self.settlement, self.entry, self.balance, self.proposal)
        return tuple(write for write in writes if write is not None)


def put(item: Row, on_failure: OnFailure, condition: Condition = ABSENT) -> Write:
    """Build a write that puts a row, if there is none yet or another condition holds."""
    return Write("Put", {"Item": item, **_condition("", condition.expression, condition.values)}, on_failure)


def update(
    key: Row,
    expression: str,
    *,
    conditions: Sequence[Condition],
    values: Mapping[str, Any] | None = None,
    on_failure: OnFailure,
) -> Write:
    """Build a write that updates a row if all the conditions hold.

    Raises ValueError without a condition, and if a placeholder has two values.
    """
    if not conditions:
        raise ValueError("an update must have a condition")
    condition = " AND ".join(each.expression for each in conditions)
    all_values: dict[str, Any] = {}
    for given in (values or {}, *(each.values for each in conditions)):
        for placeholder, value in given.items():
            if all_values.setdefault(placeholder, value) != value:
                raise ValueError(f"{placeholder} has two values")
    parameters = {"Key": key, "UpdateExpression": expression, **_condition(expression, condition, all_values)}
    return Write("Update", parameters, on_failure)


def update_with_event(
    key: Row,
    expression: str,
    *,
    conditions: Sequence[Condition],
    values: Mapping[str, Any] | None = None,
    on_failure: OnFailure,
) -> Write:
    """Build a write that updates a settlement's row, and numbers the event that it makes.

    The same write counts the event, so that two writers can neither skip a number nor repeat one. Any other
    write leaves the number alone. See docs/decisions/2026-11-23-outcome-events.md.
    """
    return update(
        key,
        f"{expression} ADD #sequence :one",
        conditions=conditions,
        values={**(values or {}), ":one": 1},
        on_failure=on_failure,
    )


def placeholders(attributes: Row) -> Row:
    """Return attributes as values of placeholders of the same names: `gsi1pk` as `:gsi1pk`."""
    return {f":{name}": value for name, value in attributes.items()}


def _condition(expression: str, condition: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a write's condition with its placeholders, and those of its update expression."""
    parameters: dict[str, Any] = {"ConditionExpression": condition}
    if values:
        parameters["ExpressionAttributeValues"] = dict(values)
    text = f"{expression} {condition}"
    if aliases := {alias: name for alias, name in _ALIASES.items() if alias in text}:
        parameters["ExpressionAttributeNames"] = aliases
    return parameters
