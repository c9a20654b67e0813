"""Evaluate a write's condition on a row: whole, or one fragment at a time."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import Write
from settlement.core.store.wire import from_wire
from tests.world import expressions, wire
from tests.world.values import Value


def clauses(write: Write) -> list[str]:
    condition: str = write.parameters["ConditionExpression"]
    return condition.split(" AND ") if condition else []


def admits(write: Write, row: Row | None) -> bool:
    """Return whether the write's condition holds for a row; None stands for a missing row."""
    return asked(write)(row)


def asked(write: Write, condition: str | None = None) -> Callable[[Row | None], bool]:
    """Return the write's condition, or one fragment of it, as a predicate of rows."""
    condition = write.parameters["ConditionExpression"] if condition is None else condition
    if not condition:
        return lambda row: True
    holds = expressions.condition(condition).holds
    names = write.parameters.get("ExpressionAttributeNames", {})
    values = wire.normal(write.parameters.get("ExpressionAttributeValues", {}))
    return lambda row: holds(_OnTheWire(row or {}), names, values)


def applied(write: Write, row: Row | None) -> Row:
    """Return the row after the write, ignoring the write's condition."""
    if write.action == "Put":
        return dict(write.parameters["Item"])
    before = wire.normal({**write.parameters["Key"], **(row or {})})
    names = write.parameters.get("ExpressionAttributeNames", {})
    values = wire.normal(write.parameters.get("ExpressionAttributeValues", {}))
    after: Row = from_wire(
        expressions.change(write.parameters["UpdateExpression"]).apply(before, names, values)
    )
    return after


class _OnTheWire(Mapping[str, Value]):
    """A row with values in DynamoDB's types, converted at access because a condition reads few of them."""

    def __init__(self, values: Row) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Value:
        value = self._values[name]
        return {"S": value} if type(value) is str else wire.normal({name: value})[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def alternatives(clause: str) -> list[str]:
    return clause[1:-1].split(" OR ") if clause.startswith("(") else []


def without(write: Write, clause: str) -> Write:
    """Return a mutant: the write without one fragment of its condition."""
    kept = [each for each in clauses(write) if each != clause]
    assert len(kept) == len(clauses(write)) - 1, f"{clause} does not occur exactly once"
    return replace(write, parameters={**write.parameters, "ConditionExpression": " AND ".join(kept)})


def status_set_by(write: Write) -> str | None:
    if write.action == "Put":
        status: str | None = write.parameters["Item"].get("status")
        return status
    names = write.parameters.get("ExpressionAttributeNames", {})
    for path, value in re.findall(r"(#?[a-z]\w*) = (:\w+)", write.parameters["UpdateExpression"]):
        if names.get(path, path) == "status":
            return str(write.parameters["ExpressionAttributeValues"][value])
    return None
