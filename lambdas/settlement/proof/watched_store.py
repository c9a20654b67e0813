from collections.abc import Callable, Iterator, Sequence
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.store import batch
from settlement.core.store.dynamodb import Store
from settlement.proof import watch
from settlement.proof.watch import Watch

_ALL = 2**31 - 1


class WatchedStore(Store):
    """A second look's store. It calls a watch before each read.

    The watch may raise CutOff: repeated reads of a long statement may outlast a function.
    """

    def __init__(self, store: Store, phase: str, watch: Watch) -> None:
        super().__init__(store.client, store.table_name)
        self._store, self._phase, self._watch = store, phase, watch
        self._read = 0

    def read(self, key: Row) -> Row | None:
        self._ask()
        self._read += 1
        return self._store.read(key)

    def rows(self, wanted: Sequence[Row]) -> Iterator[Row]:
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
        self._ask()
        for row in self._store.entries(partition, first, last, limit=limit, unreadable=unreadable):
            yield row
            self._read += 1
            if self._read % watch.STRIDE == 0:  # more often than a page ends
                self._ask()

    def open_cases(self) -> Iterator[str]:
        """Yield the settlements listed in LIMBO. The index may lag."""
        self._ask()
        for listed in self._store.listed(keys.LIMBO, up_to=keys.END_OF_TIME, limit=_ALL):
            yield keys.subject(listed)[1]
            self._read += 1
            if self._read % watch.STRIDE == 0:  # more often than a page ends
                self._ask()

    def page(self, operation: str, **parameters: Any) -> Row:
        self._ask()
        page = self._store.page(operation, **parameters)
        self._read += len(page["Items"])
        return page

    def _ask(self) -> None:
        self._watch(self._phase, self._read)
