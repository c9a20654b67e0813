"""A table in memory: what an update expression does to a row, and transactions that commit whole or not.

The engines have the last word (tests/store); this model lets a whole settlement run in no time.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from settlement.rows import Row
from settlement.writes import Posting, Standing, Write
from tests.unit.conditions import admits

_SECTION = re.compile(r"(SET|REMOVE|ADD|DELETE) (.*?)(?= (?:SET|REMOVE|ADD|DELETE) |$)")
_ASSIGNMENT = re.compile(r"(#?\w+) = (?:(#?[a-z]\w*)|(:\w+)|(#?\w+) ([+-]) (:\w+))")


def applied(write: Write, row: Row | None) -> Row:
    """The row as the write leaves it."""
    if write.action == "Put":
        return dict(write.parameters["Item"])
    before = row or {}
    after: Row = {**write.parameters["Key"], **before}
    names = write.parameters.get("ExpressionAttributeNames", {})
    values = write.parameters["ExpressionAttributeValues"]
    sections = _SECTION.findall(write.parameters["UpdateExpression"])
    assert " ".join(f"{verb} {body}" for verb, body in sections) == write.parameters["UpdateExpression"]
    for verb, body in sections:
        for part in body.split(", "):
            if verb == "SET":
                path, value = _assigned(part, before, names, values)
                after[path] = value
            elif verb == "REMOVE":
                after.pop(names.get(part, part), None)
            else:
                path, _, placeholder = part.partition(" ")
                members = before.get(path, set())
                changed = members | values[placeholder] if verb == "ADD" else members - values[placeholder]
                after = {name: value for name, value in after.items() if name != path}
                after |= {path: changed} if changed else {}  # DynamoDB drops an empty set
    return after


def _assigned(part: str, before: Row, names: Row, values: Row) -> tuple[str, Any]:
    match = _ASSIGNMENT.fullmatch(part)
    assert match, f"teach this model the assignment: {part}"
    target, source, placeholder, summand, sign, change = match.groups()
    path = names.get(target, target)
    if placeholder:
        return path, values[placeholder]
    if source:  # as in DynamoDB, it is an error where the attribute is missing
        return path, before[names.get(source, source)]
    left = before[names.get(summand, summand)]
    return path, left + values[change] if sign == "+" else left - values[change]


class Table:
    """Rows by their key. A refused write leaves all of them as they were."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._rows = {(row["pk"], row["sk"]): row for row in rows}

    def read(self, key: Row) -> Row | None:
        return self._rows.get((key["pk"], key["sk"]))

    def rows(self) -> list[Row]:
        return list(self._rows.values())

    def post(self, posting: Posting) -> Row:
        """Commit a transaction, and return its entry; one that was posted before stands."""
        try:
            self.transact(posting.writes)
        except Standing as standing:
            return standing.row
        return dict(posting.entry.parameters["Item"])

    def write(self, write: Write) -> Row:
        """Make one write, and return the row as it stands after it."""
        try:
            self.transact([write])
        except Standing as standing:
            return standing.row
        row = self.read(_key(write))
        assert row is not None
        return row

    def transact(self, writes: Sequence[Write]) -> None:
        keys = [(_key(write)["pk"], _key(write)["sk"]) for write in writes]
        assert len(set(keys)) == len(keys), "DynamoDB takes one action per row and transaction"
        for write in writes:
            row = self.read(_key(write))
            if not admits(write, row):
                raise write.refusal(row)
        changed = [applied(write, self.read(_key(write))) for write in writes]
        self._rows |= dict(zip(keys, changed, strict=True))


def _key(write: Write) -> Row:
    row: Row = write.parameters.get("Key") or write.parameters["Item"]
    return row
