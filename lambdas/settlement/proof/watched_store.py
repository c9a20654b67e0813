"""The table as a second look reads it: a watch is asked before each call for rows."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.store.dynamodb import Store
from settlement.proof import batch, watch
from settlement.proof.watch import Watch

_ALL = 2**31 - 1
"""The highest limit that a query takes."""


class WatchedStore(Store):
    """A store whose reads are under a watch: each raises CutOff, as the watch does, instead of a call.

    An account's whole statement may be read many times over, which takes longer than a function may run.
    """

    def __init__(self, store: Store, phase: str, watch: Watch) -> None:
        super().__init__(store.client, store.table_name)
        self._store, self._phase, self._watch = store, phase, watch
        self._read = 0

    def read(self, key: Row) -> Row | None:
        """Read one row by its key, consistently; None if there is none."""
        self._ask()
        self._read += 1
        return self._store.read(key)

    def rows(self, wanted: Sequence[Row]) -> Iterator[Row]:
        """Yield the rows that there are of these keys, of which no two are equal, in no order."""
        for start in range(0, len(wanted), batch.BATCH_MAX):
            self._ask()
            some = wanted[start : start + batch.BATCH_MAX]
            self._read += len(some)
            yield from batch.read(self._store, some)

    def entries(
        self,
        partition: str,
        first: str,
        last: str,
        *,
        limit: int | None = None,
        unreadable: Callable[[Row, str], None] | None = None,
    ) -> Iterator[Row]:
        """Yield a partition's rows between two sort keys, in their order, each page read consistently."""
        self._ask()
        for row in self._store.entries(partition, first, last, limit=limit, unreadable=unreadable):
            yield row
            self._read += 1
            if self._read % watch.STRIDE == 0:  # more often than a page ends
                self._ask()

    def open_cases(self) -> Iterator[str]:
        """Yield the keys of the settlements that the index lists in LIMBO. It may be behind the table."""
        self._ask()
        for listed in self._store.listed(keys.LIMBO, up_to=keys.END_OF_TIME, limit=_ALL):
            yield keys.subject(listed)[1]
            self._read += 1
            if self._read % watch.STRIDE == 0:  # more often than a page ends
                self._ask()

    def page(self, operation: str, **parameters: Any) -> Row:
        """Read one page of a `scan` or `query` consistently, as DynamoDB answers it."""
        self._ask()
        page = self._store.page(operation, **parameters)
        self._read += len(page["Items"])
        return page

    def _ask(self) -> None:
        self._watch(self._phase, self._read)
