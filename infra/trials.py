"""Allowed and refused requests of each role, derived from the grants.

Each has the context keys that a policy simulator needs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import chain, cycle

from .rooms import HANDLERS
from .table import IMMUTABLE_ATTRIBUTES, IN_A_TRANSACTION, READS

FUNCTIONS = {name: handler.rows for name, handler in HANDLERS.items() if handler.reaches_table}

PARTITIONS = sorted(
    {row.replace("*", "acceptance") for one in FUNCTIONS.values() for row in chain(*one.values())}
)

WRITES = ("PutItem", "UpdateItem", "DeleteItem")


class Decision(StrEnum):
    """Decisions, with the values of IAM's simulator."""

    ALLOWED = "allowed"
    NOT_GRANTED = "implicitDeny"
    DENIED = "explicitDeny"


@dataclass(frozen=True)
class Trial:
    function: str
    context: Mapping[str, tuple[str, ...]]
    wanted: Mapping[str, Decision]


def trials() -> Iterator[Trial]:
    immutable = cycle(IMMUTABLE_ATTRIBUTES)
    for name in FUNCTIONS:
        for partition in PARTITIONS:
            yield _rows(name, partition, enclosed=True)
            if _writes_in_a_transaction(name, partition):
                yield _rows(name, partition, enclosed=False)
        yield _attribute(name, next(immutable), "UpdateItem")
        if _partition(name):
            for attribute in HANDLERS[name].untouched:
                yield _attribute(name, attribute, "PutItem", "UpdateItem")


def _rows(name: str, partition: str, *, enclosed: bool) -> Trial:
    wanted = {
        action: Decision.ALLOWED if _may(name, action, partition, enclosed) else Decision.NOT_GRANTED
        for action in (*READS, *WRITES)
    }
    return Trial(name, _context(partition, ("pk", "sk"), enclosed), wanted)


def _attribute(name: str, attribute: str, *actions: str) -> Trial:
    """A trial of writes that name an attribute. The attribute's denial overrides the row's grant."""
    context = _context(_partition(name) or PARTITIONS[0], ("pk", "sk", attribute), True)
    return Trial(name, context, dict.fromkeys(actions, Decision.DENIED))


def _context(partition: str, attributes: tuple[str, ...], enclosed: bool) -> dict[str, tuple[str, ...]]:
    enclosing = {"dynamodb:EnclosingOperation": ("TransactWriteItems",)} if enclosed else {}
    return {"dynamodb:LeadingKeys": (partition,), "dynamodb:Attributes": attributes, **enclosing}


def _may(name: str, action: str, partition: str, enclosed: bool) -> bool:
    if HANDLERS[name].reads_all and action in READS:
        return True
    granted = FUNCTIONS[name]
    enclosing = (one for one, alone in IN_A_TRANSACTION.items() if alone == action and enclosed)
    rows = [row for one in (action, *enclosing) for row in granted.get(one, ())]
    return any(fnmatchcase(partition, row) for row in rows)


def _writes_in_a_transaction(name: str, partition: str) -> bool:
    rows = [row for one in IN_A_TRANSACTION for row in FUNCTIONS[name].get(one, ())]
    return any(fnmatchcase(partition, row) for row in rows)


def _partition(name: str) -> str | None:
    may = (one for one in PARTITIONS if any(_may(name, action, one, True) for action in WRITES))
    return next(may, None)
