"""Measure the proof of large generated books: `python -m benchmarks.proof 1000000 --segments 4`.

Each page is text in the form of DynamoDB's answers. The deployed code reads it: parser, spool and judge. The
network is left out. A local server's scan would take longer than all of these, and grow with the square of
the table.
"""

import argparse
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from types import SimpleNamespace
from typing import Any

from benchmarks import engine, growth, history
from settle.proof import segments
from settle.stack import Place
from settlement.core.ledger.keys import Row
from settlement.proof import pages, table_scan, unwatched


def _client() -> Any:
    """Return a client that ignores a new parser, because the pages are parsed already."""
    events = SimpleNamespace(register=lambda *_, **__: None, unregister=lambda *_, **__: None)
    return SimpleNamespace(meta=SimpleNamespace(events=events))


@dataclass
class Books:
    """A store of `settlements` finished settlements. Rows exist only while they are read."""

    settlements: int
    recorded: list[Row]
    key: str
    begun: dict[int, Iterator[str]] = field(default_factory=dict)
    client: Any = field(default_factory=_client)

    def page(self, operation: str, **parameters: Any) -> Row:
        """Return the next page of a segment."""
        segment, rows = parameters["Segment"], int(parameters["Limit"])
        if segment not in self.begun:
            self.begun[segment] = self._texts(segment, parameters["TotalSegments"])
        texts = list(islice(self.begun[segment], rows))
        page: Row = pages._DECODER.decode(f'{{"Items": [{",".join(texts)}], "Count": {len(texts)}}}')
        return page | ({"LastEvaluatedKey": {"pk": "more", "sk": "more"}} if len(texts) == rows else {})

    def _texts(self, segment: int, of: int) -> Iterator[str]:
        """Yield the rows of a segment's settlements. Segment 0 also has the accounts."""
        for put in history.puts(self.settlements, self.recorded, self.key, (segment, of)):
            yield put[len('{"PutRequest": {"Item": ') : -2]


@dataclass(frozen=True)
class Shelf(Place):
    """The place from which another process reads the books."""

    settlements: int = 0
    recorded: tuple[Row, ...] = ()
    key: str = ""

    def store(self) -> Any:
        """Return the books."""
        return Books(self.settlements, list(self.recorded), self.key)


def main() -> None:
    """Print the rows per second and per CPU second, and the peak memory of the processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settlements", type=int)
    parser.add_argument("--segments", type=int, default=1)
    given = parser.parse_args()
    with engine.dynamodb() as url:
        recorded, key = growth._recorded(engine.table(url, "recorded", is_ours=True))
    shelf = Shelf("books", None, None, given.settlements, tuple(recorded), key)
    stack: Any = SimpleNamespace(place=shelf, store=shelf.store())
    before = _cpu()
    begun = time.monotonic()
    if given.segments == 1:
        findings = table_scan.check(stack.store)
    else:
        findings = segments.check(stack, given.segments, unwatched)
    wall, cpu = time.monotonic() - begun, _cpu() - before
    assert findings.conserved, (findings.faults + findings.unproven)[:3]
    own, others = (
        resource.getrusage(whose).ru_maxrss / 1024
        for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(
        f"{findings.settlements:,} settlements, {findings.rows:,} rows, {given.segments} segments:"
        f" {findings.rows / wall:,.0f} rows/s, {findings.rows / cpu:,.0f} rows a CPU second,"
        f" {own:.0f} MB here, {others:.0f} MB in the largest other process"
    )


def _cpu() -> float:
    """Return the CPU time of this process and of its ended children."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


if __name__ == "__main__":
    main()
