"""Conditional writes for a table in memory and for DynamoDB, and their units."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Row = dict[str, Any]
Key = tuple[str, str]
"""Partition key and sort key."""

INDEXES = ("gsi1", "gsi2")
UNIT_BYTES = 1024


@dataclass(frozen=True)
class Write:
    """One write. `conditions` are (attribute, operator, value), and hold all, or the write is refused."""

    key: Key
    conditions: tuple[tuple[str, str, Any], ...]
    put: Mapping[str, Any] | None = None
    assign: Mapping[str, Any] = field(default_factory=dict)
    add: Mapping[str, int] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    is_delete: bool = False


@dataclass(frozen=True)
class Get:
    """A consistent read of one row."""

    key: Key


class Refusal(NamedTuple):
    """The first write whose condition failed, and the row that it met (None: no such row)."""

    write: Write
    found: Row | None


def row_of(answer: "Row | Refusal | None") -> Row:
    """Return the row that an answer shows; empty if there is none."""
    return (answer.found if isinstance(answer, Refusal) else answer) or {}


ABSENT = (("pk", "absent", None),)


def put(row: Row, conditions: Sequence[tuple[str, str, Any]] = ABSENT) -> Write:
    """Build a write that puts a row, by default only if there is none yet."""
    return Write((row["pk"], row["sk"]), tuple(conditions), put=row)


def without(write: Write, *attributes: str) -> Write:
    """Return the write without its conditions on these attributes."""
    kept = tuple(each for each in write.conditions if each[0] not in attributes)
    return Write(write.key, kept, write.put, write.assign, write.add, write.remove, write.is_delete)


class Table:
    """A table in memory: a transaction is applied as a whole or not at all."""

    def __init__(self) -> None:
        self.rows: dict[Key, Row] = {}

    def write(self, writes: Sequence[Write]) -> Row | Refusal | None:
        """Apply all writes or none; return the first one's row, or the refusal."""
        for write in writes:
            found = self.rows.get(write.key)
            if not all(_holds(found or {}, *condition) for condition in write.conditions):
                return Refusal(write, found)
        for write in writes:
            if write.is_delete:
                self.rows.pop(write.key, None)
            else:
                self.rows[write.key] = _after(self.rows.get(write.key), write)
        return self.rows.get(writes[0].key)

    def read(self, key: Key) -> Row | None:
        """Return a row; None if there is none."""
        return self.rows.get(key)


def _holds(row: Row, attribute: str, operator: str, value: Any) -> bool:
    if operator == "absent":
        return attribute not in row
    if attribute not in row:
        return False
    found = row[attribute]
    return operator == "present" or (found == value if operator == "=" else bool(found >= value))


def _after(found: Row | None, write: Write) -> Row:
    if write.put is not None:
        return dict(write.put)
    row = {"pk": write.key[0], "sk": write.key[1], **(found or {}), **write.assign}
    for name, change in write.add.items():
        row[name] += change
    for name in write.remove:
        row.pop(name, None)
    return row


def units(before: Row | None, after: Row | None, *, in_transaction: bool) -> int:
    """Return the units of one write by AWS's rule: by KB, transaction and index changes."""
    size = max(_size(before or {}), _size(after or {}))
    table = -(-size // UNIT_BYTES) * (2 if in_transaction else 1)
    return table + sum(_index_units(index, before or {}, after or {}) for index in INDEXES)


def _index_units(index: str, before: Row, after: Row) -> int:
    """Return 1 for an index row put or removed, 2 for one that moves."""
    old, new = (tuple(row.get(f"{index}{part}") for part in ("pk", "sk")) for row in (before, after))
    return 0 if old == new else (old[0] is not None) + (new[0] is not None)


def _size(row: Row) -> int:
    return sum(len(name) + (21 if isinstance(value, int) else len(value)) for name, value in row.items())


def request(table_name: str, writes: Sequence[Write]) -> tuple[str, dict[str, Any]]:
    """Return the operation and the parameters that send the writes to DynamoDB."""
    items = [_item(write) | {"TableName": table_name} for write in writes]
    if len(items) > 1:
        operations = [{_action(write): item} for write, item in zip(writes, items, strict=True)]
        return "transact_write_items", {"TransactItems": operations}
    return f"{_action(writes[0]).lower()}_item", items[0]


def _action(write: Write) -> str:
    return "Delete" if write.is_delete else "Put" if write.put is not None else "Update"


def _item(write: Write) -> dict[str, Any]:
    names: dict[str, str] = {}
    values: dict[str, Any] = {}

    def name(attribute: str) -> str:
        return names.setdefault(attribute, f"#{len(names)}")

    def value(given: Any) -> str:
        values[f":{len(values)}"] = wire(given)
        return f":{len(values) - 1}"

    item: dict[str, Any] = {}
    if write.put is not None:
        item["Item"] = wire_row(write.put)
    else:
        item["Key"] = wire_row({"pk": write.key[0], "sk": write.key[1]})
    assignments = [f"{name(each)} = {value(given)}" for each, given in write.assign.items()]
    assignments += [f"{name(each)} = {name(each)} + {value(given)}" for each, given in write.add.items()]
    removals = [name(each) for each in write.remove]
    if assignments or removals:
        expression = f"SET {', '.join(assignments)} " if assignments else ""
        item["UpdateExpression"] = expression + (f"REMOVE {', '.join(removals)}" if removals else "")
    conditions = [
        _condition(name(each), operator, given, value) for each, operator, given in write.conditions
    ]
    if conditions:
        item["ConditionExpression"] = " AND ".join(conditions)
    if names:
        item["ExpressionAttributeNames"] = {alias: each for each, alias in names.items()}
    if values:
        item["ExpressionAttributeValues"] = values
    return item


def _condition(alias: str, operator: str, given: Any, value: Any) -> str:
    if operator in ("absent", "present"):
        return f"attribute_{'not_' if operator == 'absent' else ''}exists({alias})"
    return f"{alias} {operator} {value(given)}"


def wire(value: Any) -> dict[str, str]:
    """Return a text or an integer as DynamoDB writes it."""
    return {"N": str(value)} if isinstance(value, int) else {"S": value}


def wire_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as DynamoDB writes it."""
    return {name: wire(value) for name, value in row.items()}


def kinds(keys: Iterable[Key]) -> frozenset[str]:
    """Return the first parts of partition keys: what `dynamodb:LeadingKeys` can tell apart."""
    return frozenset(key[0].partition("#")[0] for key in keys)
