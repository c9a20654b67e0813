"""A table of rows in memory: single writes, and transactions that commit as a whole or not at all."""

from collections.abc import Iterable, Sequence

from settlement.ledger.keys import Row
from settlement.ledger.transaction import AlreadyApplied, StepTransaction, Write
from tests.support import expressions, wire
from tests.unit import states
from tests.unit.conditions import admits


def applied(write: Write, row: Row | None) -> Row:
    """Return the row after the write."""
    if write.action == "Put":
        return dict(write.parameters["Item"])
    before = wire.normal({**write.parameters["Key"], **(row or {})})
    names = write.parameters.get("ExpressionAttributeNames", {})
    values = wire.normal(write.parameters["ExpressionAttributeValues"])
    return wire.from_wire(
        expressions.change(write.parameters["UpdateExpression"]).apply(before, names, values)
    )


class Table:
    """Rows by their key. A refused write changes none of them."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._rows = {(row["pk"], row["sk"]): row for row in rows}

    def read(self, key: Row) -> Row | None:
        return self._rows.get((key["pk"], key["sk"]))

    def rows(self) -> list[Row]:
        return list(self._rows.values())

    def commit(self, transaction: StepTransaction) -> Row:
        """Commit a transaction; return its entry, this call's or an earlier one's."""
        try:
            self.transact(transaction.writes)
        except AlreadyApplied as earlier:
            entry: Row = earlier.found
            return entry
        return dict(transaction.entry.parameters["Item"])

    def write(self, write: Write) -> Row:
        """Make one write; return the row after it, or as an earlier call has left it."""
        try:
            self.transact([write])
        except AlreadyApplied as earlier:
            if earlier.found != states.found(self.read(_key(write))):
                raise AssertionError("an earlier call has left another row") from earlier
        row = self.read(_key(write))
        assert row is not None
        return row

    def transact(self, writes: Sequence[Write]) -> None:
        keys = [(_key(write)["pk"], _key(write)["sk"]) for write in writes]
        assert len(set(keys)) == len(keys), "DynamoDB allows one action per row and transaction"
        for write in writes:
            row = self.read(_key(write))
            if not admits(write, row):
                raise write.on_failure(states.found(row))
        changed = [applied(write, self.read(_key(write))) for write in writes]
        self._rows |= dict(zip(keys, changed, strict=True))


def _key(write: Write) -> Row:
    row: Row = write.parameters.get("Key") or write.parameters["Item"]
    return row
