"""What a condition expression says of a row: a model of the few forms that our writes use.

The engines have the last word (tests/store); this model is fast enough to ask about every row there is.
"""

import re
from dataclasses import replace
from functools import cache
from typing import Any

from settlement.rows import Row
from settlement.writes import Write

_PATH = r"(#?[a-z]\w*)"
_FORMS = {
    rf"attribute_exists\({_PATH}\)": lambda row, path: path in row,
    rf"attribute_not_exists\({_PATH}\)": lambda row, path: path not in row,
    rf"contains\({_PATH}, (:\w+)\)": lambda row, path, value: value in row.get(path, ()),
    rf"NOT contains\({_PATH}, (:\w+)\)": lambda row, path, value: value not in row.get(path, ()),
    rf"begins_with\({_PATH}, (:\w+)\)": lambda row, path, value: str(row.get(path, "")).startswith(value),
    rf"{_PATH} = (:\w+)": lambda row, path, value: path in row and row[path] == value,
    rf"{_PATH} >= (:\w+)": lambda row, path, value: path in row and row[path] >= value,
    rf"{_PATH} <= (:\w+)": lambda row, path, value: path in row and row[path] <= value,
    rf"(:\w+) < {_PATH}": lambda row, value, path: path in row and value < row[path],
}


def clauses(write: Write) -> list[str]:
    """What the write demands of the row, one fragment at a time."""
    condition: str = write.parameters["ConditionExpression"]
    return condition.split(" AND ") if condition else []


def admits(write: Write, row: Row | None) -> bool:
    """Whether the write's condition holds for the row that stands there (None: no row)."""
    return all(holds(clause, write, row) for clause in clauses(write))


def holds(clause: str, write: Write, row: Row | None) -> bool:
    """Whether one fragment of the write's condition holds for the row."""
    if either := alternatives(clause):
        return any(holds(each, write, row) for each in either)
    form, operands = _parsed(clause)
    return bool(_FORMS[form](row or {}, *(_operand(text, write) for text in operands)))


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
    for path, value in re.findall(rf"{_PATH} = (:\w+)", write.parameters["UpdateExpression"]):
        if names.get(path, path) == "status":
            return str(write.parameters["ExpressionAttributeValues"][value])
    return None


@cache
def _parsed(clause: str) -> tuple[str, tuple[str, ...]]:
    for form in _FORMS:
        if match := re.fullmatch(form, clause):
            return form, match.groups()
    raise AssertionError(f"teach this model the form of: {clause}")


def _operand(text: str, write: Write) -> Any:
    if text.startswith(":"):
        return write.parameters["ExpressionAttributeValues"][text]
    return write.parameters["ExpressionAttributeNames"][text] if text.startswith("#") else text
