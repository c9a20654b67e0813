from collections.abc import Callable, Iterator
from typing import Any

import pytest

from settlement.core.store import batch
from settlement.core.store.dynamodb import Store
from settlement.proof import CutOff, watch
from settlement.proof.watched_store import WatchedStore

ROWS = [{"pk": "ENTRIES#alice", "sk": f"{number}"} for number in range(5)]


class Fake(Store):
    """A store of five rows that counts its requests."""

    def __init__(self) -> None:
        super().__init__(self, "a-table")
        self.calls = 0

    def read(self, key: Any) -> Any:
        self.calls += 1
        return ROWS[0]

    def entries(self, partition: str, first: str, last: str, **_: Any) -> Iterator[Any]:
        self.calls += 1
        yield from ROWS

    def page(self, operation: str, **parameters: Any) -> Any:
        self.calls += 1
        return {"Items": ROWS}

    def batch_get_item(self, **parameters: Any) -> Any:
        self.calls += 1
        ((table, wanted),) = parameters["RequestItems"].items()
        return {"Responses": {table: wanted["Keys"]}}


READS: dict[str, Callable[[WatchedStore], Any]] = {
    "read": lambda store: store.read(ROWS[0]),
    "entries": lambda store: list(store.entries("ENTRIES#alice", "0", "9")),
    "page": lambda store: store.page("query"),
    "rows": lambda store: list(store.rows(ROWS)),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_no_call_begins_when_the_time_is_over(read: Callable[[WatchedStore], Any]) -> None:
    fake = Fake()

    def over(phase: str, done: int) -> None:
        raise CutOff(f"{phase}, after {done}")

    with pytest.raises(CutOff, match="looking, after 0"):
        read(WatchedStore(fake, "looking", over))

    assert fake.calls == 0


@pytest.mark.parametrize(("kind", "rows"), [("read", 1), ("entries", 5), ("page", 5), ("rows", 5)])
def test_the_watch_is_called_for_every_row_read(
    monkeypatch: pytest.MonkeyPatch, kind: str, rows: int
) -> None:
    monkeypatch.setattr(batch, "BATCH_MAX", 2)
    monkeypatch.setattr(watch, "STRIDE", 2)
    told: list[int] = []
    store = WatchedStore(Fake(), "looking", lambda phase, done: told.append(done))

    READS[kind](store)
    store.read(ROWS[0])

    assert told[-1] == rows
    assert told == sorted(told)


@pytest.mark.parametrize("kind", ["entries", "rows"])
def test_the_watch_is_called_during_long_reads_too(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(batch, "BATCH_MAX", 2)
    monkeypatch.setattr(watch, "STRIDE", 2)
    told: list[int] = []

    READS[kind](WatchedStore(Fake(), "looking", lambda phase, done: told.append(done)))

    assert told == [0, 2, 4]
