"""The bank's lines on record. The index may lag some seconds; rows are read consistently."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from settlement.bank import booked, record
from settlement.bank.balances import Days
from settlement.bank.booked import LISTED_MAX
from settlement.bank.matching import Recorded
from settlement.bank.record import File, Match
from settlement.bank.spool import Spool
from settlement.bank.statement import Statement
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.stored import MalformedRow, exponent_of
from settlement.core.store import batch
from settlement.core.store.dynamodb import Store

Watched = Callable[[Iterable[Any]], Iterator[Any]]
"""Passes items on, and observes each."""

T = TypeVar("T")


@dataclass(frozen=True)
class BankRecord:
    """A stage's record of the bank's files.

    `unreadable` is called for each unreadable row, and reading continues.
    """

    store: Store
    config: StageConfig
    unreadable: Callable[[str], None]

    def add_orders(self, spool: Spool, days: Days, watch: Watched = iter) -> None:
        orders = booked.orders(self.store, self.config, self.unreadable, *days)
        for order, match in self._beside(watch(orders), lambda one: keys.banked(one.key)):
            spool.add_order(order)
            _add_match(spool, match)

    def add_lines(self, spool: Spool, days: Days, watch: Watched = iter) -> None:
        for one, match in self.lines(days, watch):
            spool.add_recorded(one)
            _add_match(spool, match)

    def lines(self, days: Days, watch: Watched = iter) -> Iterator[tuple[Recorded, Match | None]]:
        """Yield the lines booked on these days, in order, each with its match, if any."""
        return self._beside(watch(self._lines(days)), lambda one: keys.bank_match(one.line.identity))

    def files(self, first: str, last: str) -> Iterator[File]:
        """Yield the files read whole between two times, oldest first."""
        for key in self._listed(keys.bank_files_partition, first, last):
            yield from (one for _, one in self._read([key], record.file_of))

    def statements(self, file: File) -> Iterator[Statement]:
        partition = keys.bank_file(file.digest)["pk"]
        for row in self.store.entries(partition, "STATEMENT#", "STATEMENT#~", unreadable=self._put_aside):
            yield from self._sound(row, record.statement_of)

    def _lines(self, days: Days) -> Iterator[Recorded]:
        found = self._listed(keys.bank_lines_partition, *days)
        while some := list(islice(found, batch.BATCH_MAX)):
            yield from (one for _, one in self._read(some, record.line_of))

    def _beside(self, things: Iterable[T], match: Callable[[T], Row]) -> Iterator[tuple[T, Match | None]]:
        left = iter(things)
        while some := list(islice(left, batch.BATCH_MAX)):
            wanted = [match(one) for one in some]
            found = {key["pk"]: one for key, one in self._read(wanted, record.match_of)}
            yield from ((one, found.get(key["pk"])) for one, key in zip(some, wanted, strict=True))

    def _listed(self, partition: Callable[[str], str], first: str, last: str) -> Iterator[Row]:
        for month in keys.order_months(first[: keys.MONTH], last[: keys.MONTH]):
            listed = self.store.listed(partition(month), since=first, up_to=f"{last}~", limit=LISTED_MAX)
            yield from ({"pk": key["pk"], "sk": key["sk"]} for key in listed)

    def _read(self, wanted: Sequence[Row], kind: Callable[[Row], T]) -> Iterator[tuple[Row, T]]:
        rows = batch.read(self.store, wanted, self._put_aside)
        found = {(row["pk"], row["sk"]): row for row in rows}
        for key in wanted:
            if row := found.get((key["pk"], key["sk"])):
                yield from ((key, one) for one in self._sound(row, kind))

    def _sound(self, row: Row, kind: Callable[[Row], T]) -> Iterator[T]:
        try:
            if "currency" in row:
                exponent_of(row["pk"], row["currency"], self.config)
            yield kind(row)
        except MalformedRow as malformed:
            self._put_aside(row, str(malformed))

    def _put_aside(self, row: Row, reason: str) -> None:
        self.unreadable(f"{row['pk']}: {reason.removeprefix(row['pk'] + ': ')}")


def _add_match(spool: Spool, match: Match | None) -> None:
    if match:
        spool.add_match(match.line, match.order)
