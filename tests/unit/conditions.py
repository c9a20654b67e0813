"""The condition of a write, evaluated on a row: as a whole, and one fragment at a time."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from settlement.ledger.keys import Row
from settlement.ledger.transaction import Write
from tests.support import expressions, wire
from tests.support.values import Value


def clauses(write: Write) -> list[str]:
    """Return the fragments of the write's condition."""
    condition: str = write.parameters["ConditionExpression"]
    return condition.split(" AND ") if condition else []


def admits(write: Write, row: Row | None) -> bool:
    """Return whether the write's condition holds for a row (None: there is no row)."""
    condition = write.parameters["ConditionExpression"]
    return not condition or holds(condition, write, row)


def holds(condition: str, write: Write, row: Row | None) -> bool:
    """Return whether the write's condition, or a fragment of it, holds for the row."""
    names = write.parameters.get("ExpressionAttributeNames", {})
    values = _OnTheWire(write.parameters.get("ExpressionAttributeValues", {}))
    return expressions.condition(condition).holds(_OnTheWire(row or {}), names, values)


class _OnTheWire(Mapping[str, Value]):
    """Values by name, as DynamoDB has them. A condition reads few of them; only these are converted."""

    def __init__(self, values: Row) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Value:
        return wire.normal({name: self._values[name]})[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def alternatives(clause: str) -> list[str]:
    """Return the alternatives of a fragment, any one of which is enough; none if it has no choice."""
    return clause[1:-1].split(" OR ") if clause.startswith("(") else []


def without(write: Write, clause: str) -> Write:
    """Return the write without one fragment of its condition: a mutant."""
    kept = [each for each in clauses(write) if each != clause]
    assert len(kept) == len(clauses(write)) - 1, f"{clause} does not occur exactly once"
    return replace(write, parameters={**write.parameters, "ConditionExpression": " AND ".join(kept)})


def status_set_by(write: Write) -> str | None:
    """Return the status that the write sets; None if it leaves the status as it is."""
    if write.action == "Put":
        status: str | None = write.parameters["Item"].get("status")
        return status
    names = write.parameters.get("ExpressionAttributeNames", {})
    for path, value in re.findall(r"(#?[a-z]\w*) = (:\w+)", write.parameters["UpdateExpression"]):
        if names.get(path, path) == "status":
            return str(write.parameters["ExpressionAttributeValues"][value])
    return None
