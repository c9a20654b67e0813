"""Costs of a pay run beyond its payments, and their growth: `python -m benchmarks.payruns`.

Units are the answers of a DynamoDB engine; dollars are modelled with `prices.toml`. Starts of executions are
left out: each payment has its own.
"""

import argparse
import logging
import os
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from unittest import mock

import boto3

from benchmarks import cost, engine
from benchmarks.payouts import Counted, counted
from benchmarks.report import table
from infra.payruns import OPTIONAL
from settle.payruns import checking, sheet
from settle.stack import Stack
from settlement.aws import step_functions
from settlement.core.model.timestamps import timestamp
from settlement.payruns import bucket, file, writes
from settlement.payruns.file import Header, Kind, Line, RunFile
from settlement.payruns.run import Proposal, Run, Status
from tests.unit.payouts.rows import ADA, BEA
from tests.world.environment import NOW
from tests.world.functions import Context
from tests.world.ledger import Ledger, over, signing

LINES = (1_000, 10_000, 100_000)
PAID = 1_000
"""Lines of the run whose units are counted."""

_PRICES = Path(__file__).parent / "prices.toml"
_SELLERS = 1_000
_CHECKED_PAYER = "market"
"""The payer of the checked sheets. With the counted run's payer, they would repeat its lines."""


def line_of(number: int) -> Line:
    payee = f"seller{number % _SELLERS}"
    return Line(number=number, payee=payee, amount="12.34", currency="EUR", reference=f"sale {number}")


def run_of(lines: int) -> tuple[RunFile, Proposal]:
    found = RunFile(
        Header(name=f"bench-{lines}", kind=Kind.PAYMENTS, payer="shop"),
        [line_of(number) for number in range(2, lines + 2)],
    )
    return found, Proposal(
        digest=file.digest_of(found.content),
        name=found.header.name,
        kind=Kind.PAYMENTS,
        payer="shop",
        lines=lines,
        sums={"EUR": 1_234 * lines},
        needed=1,
        reason="bench",
        by=ADA.by,
        posted_at=timestamp(NOW),
    )


def paid(ledger: Ledger, lines: int) -> tuple[Counted, Counted, float]:
    """Pay a run's lines up to their claims. Return its calls, the calls of one claim, and the seconds."""
    from handlers import _dependencies  # noqa: PLC0415 - they read the environment
    from handlers.core import _workers  # noqa: PLC0415
    from handlers.payruns import pay_lines  # noqa: PLC0415

    found, proposal = run_of(lines)
    store = signing(ledger).store
    store.transact(writes.propose(proposal, ADA))
    state = Run(
        run=proposal.run,
        name=proposal.name,
        status=Status.PROPOSED,
        sequence=1,
        proposed_at=proposal.posted_at,
        lines=lines,
    )
    store.transact(writes.approve(state, proposal, BEA, NOW))
    store.transact(
        writes.resume(replace(state, status=Status.APPROVED, sequence=2, approvals=1), proposal, BEA, NOW)
    )
    with (
        mock.patch.object(_dependencies, "store", store),
        mock.patch.object(_dependencies, "now", return_value=NOW),
        mock.patch.object(bucket, "read", return_value=found.content),
        mock.patch.object(_workers.Pace, "wait"),
        mock.patch.object(step_functions, "start"),
        mock.patch.dict("os.environ", LINES_PER_SECOND="1000", EXPRESS_MACHINE="arn:machine"),
        redirect_stdout(StringIO()),
    ):
        with counted(ledger.client) as alone:
            pay_lines._start(file.request_of("0" * 32, found.header, line_of(2)), "0" * 32)
        with counted(ledger.client) as taken:
            began = time.perf_counter()
            answer = pay_lines.handler({}, Context())
            seconds = time.perf_counter() - began
    assert answer == {"running": 1, "waiting": 0}, answer
    return taken, alone, seconds


def of_lines(ledger: Ledger) -> Iterator[str]:
    """Yield the units of a line. Its claim is left out: a payment by the start queue has it as well."""
    taken, alone, seconds = paid(ledger, PAID)
    rows = [(name, f"{count / PAID:g}") for name, count in sorted(Counter(taken.calls).items())]
    yield from table(("call", "for each line"), rows)
    yield ""
    prices = cost.load(_PRICES).prices
    extra_writes, reads = taken.write_units / PAID - alone.write_units, taken.read_units / PAID
    memory_mb = OPTIONAL["PayLines"].memory_mb
    database = cost.MILLION * (extra_writes * prices["write_unit"] + reads * prices["read_unit"])
    seconds_of_a_line = 1 / 40
    functions = cost.MILLION * seconds_of_a_line * memory_mb / 1_024 * prices["lambda_gb_second"]
    titles = (
        "a million lines, beside their payments",
        "write units",
        "read units",
        "table, $",
        "functions, $",
    )
    yield from table(
        titles,
        [("", f"{extra_writes:g}", f"{reads:g}", f"{database:.2f}", f"{functions:.2f}")],
    )
    yield ""
    yield f"{PAID / seconds:.0f} lines a second without a pace, on an engine of this machine"


def of_sheets(ledger: Ledger, stack: Stack, sizes: tuple[int, ...]) -> Iterator[str]:
    """Yield the time and memory of a proposal, which reads the sheet and checks each line."""
    ledger.open(_CHECKED_PAYER, 10**12)
    for number in range(_SELLERS):
        ledger.open(f"seller{number}", 0)
    header, config = Header(name="bench", kind=Kind.PAYMENTS, payer=_CHECKED_PAYER), stack.config
    rows = list[tuple[str, ...]]()
    for size in sizes:
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as written:
            written.write("payee,amount,currency,reference\n")
            for number in range(size):
                one = line_of(number)
                written.write(f"{one.payee},{one.amount},{one.currency},{one.reference}\n")
            written.flush()
            began = time.perf_counter()
            found = sheet.read(written.name, Kind.PAYMENTS, config)
            seconds = time.perf_counter() - began
            began = time.perf_counter()
            checked = checking.check(stack, found, header, NOW)
            of_check = time.perf_counter() - began
            assert not checked.problems, checked.problems[:3]
            tracemalloc.start()
            sheet.read(written.name, Kind.PAYMENTS, config)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        content = checked.file.content
        began = time.perf_counter()
        file.parse(content, checked.digest)
        parsed = time.perf_counter() - began
        times = (seconds, of_check, parsed)
        per_line = (*(f"{one / size * 1e6:.0f}" for one in times), f"{peak / size:.0f}")
        rows.append((f"{size:,}", f"{len(content) / 2**20:.1f}", *per_line))
    titles = ("read, µs a line", "checked, µs", "read by PayLines, µs", "memory, bytes a line")
    yield from table(("lines", "file, MB", *titles), rows)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, nargs="+", default=list(LINES), help="sizes of the sheets")
    sizes = tuple(parser.parse_args().lines)
    logging.disable(logging.CRITICAL)
    with ExitStack() as held:
        url = held.enter_context(engine.dynamodb())
        place = engine.table(url, "payrun", is_ours=True)
        ledger = over(boto3.client("dynamodb", endpoint_url=place.url), place.table)
        outputs = {"TableName": place.table, "StageConfig": os.environ["STAGE_CONFIG"]}
        stack = Stack("bench", outputs, boto3.Session(), place.url)
        parts: tuple[Iterator[str], ...] = (of_lines(ledger), of_sheets(ledger, stack, sizes))
        for lines in parts:
            for line in lines:
                print(line, flush=True)
            print()


if __name__ == "__main__":
    main()
