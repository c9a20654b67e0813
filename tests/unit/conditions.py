"""What a condition expression says of a row: a model of the few forms that our writes use.

The engines have the last word (tests/store); this model is fast enough to ask about every row there is.
"""

import re
from typing import Any

from settlement.rows import Row
from settlement.writes import Write

_PATH = r"(#?[a-z]\w*)"
_FORMS = {
    rf"attribute_not_exists\({_PATH}\)": lambda row, path: path not in row,
    rf"contains\({_PATH}, (:\w+)\)": lambda row, path, value: value in row.get(path, ()),
    rf"NOT contains\({_PATH}, (:\w+)\)": lambda row, path, value: value not in row.get(path, ()),
    rf"{_PATH} = (:\w+)": lambda row, path, value: path in row and row[path] == value,
    rf"{_PATH} >= (:\w+)": lambda row, path, value: path in row and row[path] >= value,
    rf"{_PATH} <= (:\w+)": lambda row, path, value: path in row and row[path] <= value,
    rf"(:\w+) < {_PATH}": lambda row, value, path: path in row and value < row[path],
}


def admits(write: Write, row: Row | None) -> bool:
    """Whether the write's condition holds for the row that stands there (None: no row)."""
    clauses = write.parameters["ConditionExpression"].split(" AND ")
    return all(_holds(clause, write, row or {}) for clause in clauses)


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


def _holds(clause: str, write: Write, row: Row) -> bool:
    for form, holds in _FORMS.items():
        if match := re.fullmatch(form, clause):
            return bool(holds(row, *(_operand(text, write) for text in match.groups())))
    raise AssertionError(f"teach this model the form of: {clause}")


def _operand(text: str, write: Write) -> Any:
    if text.startswith(":"):
        return write.parameters["ExpressionAttributeValues"][text]
    return write.parameters["ExpressionAttributeNames"][text] if text.startswith("#") else text
