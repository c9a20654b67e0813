from collections.abc import Iterator

import pytest

from benchmarks import engine
from benchmarks.interleave import Process

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    with engine.dynamodb() as url:
        started = Process("ours", engine.table(url, "ours", is_ours=True))
        yield started
        started.end()


def test_the_benchmark_counts_the_writes_of_a_settlement(process: Process) -> None:
    counted = process.ask("count")

    assert counted["calls"].count("TransactWriteItems") == 3
    assert counted["write_units"] == counted["by_rule"] > 0
