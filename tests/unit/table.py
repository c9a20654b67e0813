"""A table of rows: what a write makes of one, and transactions that commit whole or not."""

from collections.abc import Iterable, Sequence

from settlement.rows import Row
from settlement.writes import Posting, Standing, Write
from tests.support import expressions, wire
from tests.unit.conditions import admits


def applied(write: Write, row: Row | None) -> Row:
    """The row as the write leaves it."""
    if write.action == "Put":
        return dict(write.parameters["Item"])
    before = wire.normal({**write.parameters["Key"], **(row or {})})
    names = write.parameters.get("ExpressionAttributeNames", {})
    values = wire.normal(write.parameters["ExpressionAttributeValues"])
    return wire.from_wire(
        expressions.change(write.parameters["UpdateExpression"]).apply(before, names, values)
    )


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
