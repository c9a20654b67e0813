"""What a write's condition says of a row, as a whole and one fragment at a time."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from settlement.rows import Row
from settlement.writes import Write
from tests.support import expressions, wire
from tests.support.values import Value


def clauses(write: Write) -> list[str]:
    """What the write demands of the row, one fragment at a time."""
    condition: str = write.parameters["ConditionExpression"]
    return condition.split(" AND ") if condition else []


def admits(write: Write, row: Row | None) -> bool:
    """Whether the write's condition holds for the row that stands there (None: no row)."""
    condition = write.parameters["ConditionExpression"]
    return not condition or holds(condition, write, row)


def holds(condition: str, write: Write, row: Row | None) -> bool:
    """Whether the write's condition, or a fragment of it, holds for the row."""
    names = write.parameters.get("ExpressionAttributeNames", {})
    values = _OnTheWire(write.parameters.get("ExpressionAttributeValues", {}))
    return expressions.condition(condition).holds(_OnTheWire(row or {}), names, values)


class _OnTheWire(Mapping[str, Value]):
    """Values by name, as DynamoDB has them. A condition looks at few; only these are converted."""

    def __init__(self, values: Row) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Value:
        return wire.normal({name: self._values[name]})[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def alternatives(clause: str) -> list[str]:
    """What the fragment is content with, where any one of several will do."""
    return clause[1:-1].split(" OR ") if clause.startswith("(") else []


def without(write: Write, clause: str) -> Write:
    """The same write with one fragment of its condition taken out: a mutant."""
    kept = [each for each in clauses(write) if each != clause]
    assert len(kept) == len(clauses(write)) - 1, f"{clause} is not demanded exactly once"
    return replace(write, parameters={**write.parameters, "ConditionExpression": " AND ".join(kept)})


def status_set_by(write: Write) -> str | None:
    """The status that the write leaves on the row; None where it leaves the status alone."""
    if write.action == "Put":
        status: str | None = write.parameters["Item"].get("status")
        return status
    names = write.parameters.get("ExpressionAttributeNames", {})
    for path, value in re.findall(r"(#?[a-z]\w*) = (:\w+)", write.parameters["UpdateExpression"]):
        if names.get(path, path) == "status":
            return str(write.parameters["ExpressionAttributeValues"][value])
    return None
