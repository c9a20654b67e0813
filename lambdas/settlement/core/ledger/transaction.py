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
"""Aliases for names that DynamoDB reserves."""


class AlreadyApplied(Exception):
    """An earlier call applied the write, or the row needs no change. `found` is the row's state."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        self.found = found


OnFailure = Callable[[Any], SettlementError | AlreadyApplied]
"""Explains a failed condition. Its argument: a SettlementState, an AccountState, another row or None."""


@dataclass(frozen=True)
class Write:
    action: Literal["Put", "Update"]
    parameters: Mapping[str, Any]
    on_failure: OnFailure


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """A movement of `amount` minor units."""

    debit: str
    credit: str
    amount: int

    @classmethod
    def of(cls, settlement: Settlement, step: Step) -> "Transfer":
        """A step's transfer. Raises ValueError if the step moves no money."""
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
        return Transfer(debit=self.credit, credit=self.debit, amount=self.amount)

    def change_of(self, account: str) -> int:
        return self.amount if account == self.credit else -self.amount


@dataclass(frozen=True, kw_only=True)
class StepTransaction:
    """One step's transaction, in the order of `writes`.

    - `evidence`: records a fact.
    - `entry`: moves money.
    - `balance`: a customer's balance row.
    - `proposal`: closes the proposal that several persons decided.
    - `metric`: counted on commit.
    """

    evidence: Write | None = None
    settlement: Write
    entry: Write | None = None
    balance: Write | None = None
    proposal: Write | None = None
    metric: str | None = None

    @property
    def gate(self) -> Write:
        """The idempotency check: the evidence, or the settlement's row in a step without evidence."""
        return self.evidence or self.settlement

    @property
    def writes(self) -> tuple[Write, ...]:
        """The writes in a fixed order. DynamoDB lists the reasons of a cancellation in this order."""
        writes = (self.evidence, self.settlement, self.entry, self.balance, self.proposal)
        return tuple(write for write in writes if write is not None)


def put(item: Row, on_failure: OnFailure, condition: Condition = ABSENT) -> Write:
    """Build a put. By default, the row must not exist."""
    return Write("Put", {"Item": item, **_condition("", condition.expression, condition.values)}, on_failure)


def update(
    key: Row,
    expression: str,
    *,
    conditions: Sequence[Condition],
    values: Mapping[str, Any] | None = None,
    on_failure: OnFailure,
) -> Write:
    """Build an update. Raises ValueError without conditions, or if a placeholder has two values."""
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
    """Build an update of a settlement's row that also numbers its next event.

    So no number is skipped or repeated: docs/decisions/2026-11-23-outcome-events.md.
    """
    return update(
        key,
        f"{expression} ADD #sequence :one",
        conditions=conditions,
        values={**(values or {}), ":one": 1},
        on_failure=on_failure,
    )


def placeholders(attributes: Row) -> Row:
    return {f":{name}": value for name, value in attributes.items()}


def _condition(expression: str, condition: str, values: Mapping[str, Any]) -> dict[str, Any]:
    parameters: dict[str, Any] = {"ConditionExpression": condition}
    if values:
        parameters["ExpressionAttributeValues"] = dict(values)
    text = f"{expression} {condition}"
    if aliases := {alias: name for alias, name in _ALIASES.items() if alias in text}:
        parameters["ExpressionAttributeNames"] = aliases
    return parameters
