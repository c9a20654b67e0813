"""Lines a second and peak memory of comparing a statement: `python -m benchmarks.statements`.

Each size runs in a process of its own: a camt.053 is written, read, and compared with as many orders.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from settlement.bank import camt
from settlement.bank.comparison import judge
from settlement.bank.matching import Order
from settlement.bank.spool import Spool
from settlement.bank.statement import Line, Side, Statement
from tests.world.bank_files import camt as written
from tests.world.bank_files import line

SIZES = (10_000, 100_000, 1_000_000)
DAY = "2026-11-27"
_MARK = b"</Ntry>\n"


def main() -> None:
    """Print a table of all sizes, or one size's figures as JSON."""
    if sys.argv[1:]:
        print(json.dumps(measure(int(sys.argv[1]))))
        return
    print(f"{'lines':>9} {'MB':>6} {'read/s':>8} {'compared/s':>11} {'peak MB':>8}")
    for size in SIZES:
        command = [sys.executable, "-m", "benchmarks.statements", str(size)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(
            f"{size:>9,} {found['megabytes']:>6.0f} {found['read']:>8,.0f} {found['compared']:>11,.0f}"
            f" {found['peak']:>8.0f}"
        )


def measure(size: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "day.xml"
        with file.open("wb") as out:
            out.writelines(_content(size))
        before = _peak()
        began = time.perf_counter()
        with file.open("rb") as content:
            read = sum(isinstance(one, Line) for one in camt.read(content, {"EUR": 2}))
        took = time.perf_counter() - began
        began = time.perf_counter()
        pairs = _compared(file, size)
        compared = time.perf_counter() - began
        assert read == pairs == size
        return {
            "megabytes": file.stat().st_size / 10**6,
            "read": size / took,
            "compared": size / compared,
            "before": before,
            "peak": _peak(),
        }


def _content(size: int) -> Iterator[bytes]:
    """Yield a file with `size` lines, each named by its number."""
    whole = written([line("1.00", text="REF-0", bank_reference="B0")], day=DAY, closing=f"{1000 + size}.00")
    head, tail = whole.split(b"<Ntry>", 1)
    entry = b"<Ntry>" + tail.split(_MARK, 1)[0] + _MARK
    yield head
    for number in range(size):
        yield entry.replace(b"REF-0", b"REF-%d" % number).replace(b">B0<", b">B%d<" % number)
    yield tail.split(_MARK, 1)[1]


def _compared(file: Path, size: int) -> int:
    statements = list[Statement]()
    with Spool() as spool, file.open("rb") as content:
        for number in range(size):
            spool.add_order(Order(f"order-{number}", "bob", "EUR", 100, Side.IN, f"REF-{number}", DAY))
        for one in camt.read(content, {"EUR": 2}):
            if isinstance(one, Statement):
                statements.append(one)
                spool.add_statement(one)
            else:
                spool.add_line(one, "day.xml")
        return judge(spool, statements, 3, {"EUR": 100_000}, []).pairs


def _peak() -> float:
    """Return the process's peak memory in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
