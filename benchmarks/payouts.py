"""Calls, units and dollars of a payout, and of FollowPayouts' runs: `python -m benchmarks.payouts`.

Units are the answers of a DynamoDB engine; dollars are modelled with `prices.toml`. In a run, all payouts but
a few wait for a later look.
"""

import argparse
import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
import urllib3

from benchmarks import bills, cost, deployment, engine
from benchmarks.cost import Bill, Tariff, Usage
from benchmarks.interleave import Measured
from benchmarks.report import MEASURED, table
from infra.payouts import OPTIONAL
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.timestamps import timestamp
from settlement.payouts.payout import State, Status, Word
from settlement.payouts.port import Found
from tests.statemachines.payouts.test_pay_out import GIVEN, Functions
from tests.store.payouts.costs import payee
from tests.store.payouts.test_cost_of_a_payout import Bank, Way
from tests.store.test_cost_of_recovery import BATCH, HEADERS
from tests.unit.payouts.rows import PAYOUT, STATES
from tests.world.environment import NOW
from tests.world.functions import Context
from tests.world.ledger import Ledger, over, signing
from tests.world.saga import Saga

OPEN = (100, 10_000, 100_000)
DUE = 10
_PRICES = Path(__file__).parent / "prices.toml"
_THREADS = 4
_MINUTES_OF_MONTH = 60 * 730


@dataclass
class Counted:
    """DynamoDB's calls, and its units of writes and of reads."""

    calls: Counter[str] = field(default_factory=Counter)
    write_units: float = 0
    read_units: float = 0

    def add(self, parsed: dict[str, Any], model: Any, **_: Any) -> None:
        consumed = parsed.get("ConsumedCapacity", [])
        units = sum(one["CapacityUnits"] for one in (consumed if isinstance(consumed, list) else [consumed]))
        self.calls[model.name] += 1
        if model.name in ("BatchGetItem", "GetItem", "Query"):
            self.read_units += units
        else:
            self.write_units += units

    def waiting_ms(self, model: dict[str, float]) -> float:
        ms = {"TransactWriteItems": "transaction_ms", "GetItem": "read_ms", "Query": "read_ms"}
        return sum(count * model[ms[name]] for name, count in self.calls.items())


@contextmanager
def counted(client: Any) -> Iterator[Counted]:
    found = Counted()
    client.meta.events.register("after-call.dynamodb", found.add)
    yield found
    client.meta.events.unregister("after-call.dynamodb", found.add)


# One payout


def steps(ledger: Ledger) -> dict[str, Counted]:
    """Return the calls and units of each step of a payout, from reservation to statement."""
    settlement = Settlement(
        key="order-2026-000101", payer="alice", payee="bob", amount=1, currency="EUR", fee=0
    )
    saga = Saga(
        ledger, settlement, StageConfig.from_json(os.environ["STAGE_CONFIG"])
    )  # it opens the accounts
    payee(saga)
    way = Way(saga)
    found: dict[str, Counted] = {}
    for name, step in {
        "reserve": way.reserve,
        "send, accepted": way.look,
        "ask, paid": way.look,
        "record and list the line": way.statement,
        "book the line": way.book,
    }.items():
        with counted(ledger.client) as found[name]:
            step()
        way.at += timedelta(minutes=1)
    assert way.follower.state(PAYOUT.key).status is Status.CONFIRMED
    return found


def transitions() -> int:
    """Return the number of states that an execution enters if the bank accepts at once."""
    execution = Functions(["ACCEPTED"]).run(GIVEN)
    assert execution.status == "SUCCEEDED", execution.error
    return len(execution.visited)


@dataclass(frozen=True)
class Model:
    tariff: Tariff
    call_cpu_ms: float
    memory_mb: int

    def usage(self, taken: Counted, *, function: str, calls: float, asks: int = 0) -> Usage:
        """Return the usage of steps in a function, with `calls` of it and `asks` requests to the bank."""
        model = self.tariff.model
        services = taken.calls.total() + asks
        return Usage(
            write_units=taken.write_units,
            read_units=taken.read_units,
            invocations=calls,
            cpu_ms=services * self.call_cpu_ms,
            waiting_ms=taken.waiting_ms(dict(model)) + asks * model["provider_ms"],
            memory_mb=max(self.memory_mb, OPTIONAL[function].memory_mb),
            log_bytes=calls * (model["door_log_bytes"] + model["event_bytes"]),
        )

    def bill(self, found: dict[str, Counted], *, by_machine: bool) -> tuple[Bill, float]:
        """Return the bill of a million payouts, and the dollars of their HTTP calls.

        Later looks and the statement's steps run in scheduled calls, which payouts share.
        """
        door = "ReservePayout" if by_machine else "ServePayouts"
        door_calls_follower = 0 if by_machine else 1
        reserve = self.usage(found["reserve"], function=door, calls=1)
        reserve = replace(
            reserve,
            cpu_ms=reserve.cpu_ms + door_calls_follower * self.call_cpu_ms,
            waiting_ms=reserve.waiting_ms + door_calls_follower * self.tariff.model["start_ms"],
            transitions=transitions() if by_machine else 0,
        )
        parts = [
            reserve,
            self.usage(found["send, accepted"], function="FollowPayouts", calls=1, asks=1),
            self.usage(found["ask, paid"], function="FollowPayouts", calls=0, asks=1),
            self.usage(found["record and list the line"], function="FollowPayouts", calls=0),
            self.usage(found["book the line"], function="FollowPayouts", calls=0),
        ]
        bills_ = [cost.standard(one, self.tariff) for one in parts]
        names = ("database", "functions", "orchestration", "logs")
        together = Bill(*(sum(getattr(one, name) for one in bills_) for name in names))
        return together, 0 if by_machine else cost.MILLION * self.tariff.prices["api_call"]


def model_of() -> Model:
    """Return the model, with the CPU time of a call from the last `make bench`."""
    tariff, deployed = cost.load(_PRICES), deployment.read()
    measured = {name: Measured(**one) for name, one in json.loads(MEASURED.read_text()).items()}
    used = bills.usage("ours", measured, deployed, tariff)
    return Model(tariff, used.cpu_ms / len(measured["ours"].counted["calls"]), deployed.memory_mb)


# A run of FollowPayouts


def state_of(number: int) -> State:
    accepted = STATES[Status.ACCEPTED]
    return replace(accepted, payout=replace(accepted.payout, key=f"payout-many-{number:06}"))


def waiting(numbers: range) -> Iterator[Row]:
    """Yield payouts whose look is due in an hour. They have only the attributes that a run reads."""
    for number in numbers:
        key = f"payout-many-{number:06}"
        partition = keys.payouts_partition(number % keys.PAYOUT_SHARDS)
        yield {**keys.payout(key), "gsi1pk": partition, "gsi1sk": timestamp(NOW + timedelta(hours=1))}


def fill(ledger: Ledger, numbers: range) -> None:
    pool = urllib3.PoolManager(maxsize=_THREADS, headers=HEADERS)
    puts = [
        {"PutRequest": {"Item": {name: {"S": value} for name, value in row.items()}}}
        for row in waiting(numbers)
    ]

    def send(first: int) -> bytes:
        call = {"RequestItems": {ledger.table_name: puts[first : first + BATCH]}}
        return pool.request("POST", ledger.client.meta.endpoint_url, body=json.dumps(call)).data

    with ThreadPoolExecutor(_THREADS) as threads:
        answers = set(threads.map(send, range(0, len(puts), BATCH)))
    assert answers <= {b'{"UnprocessedItems":{}}'}, answers


def run_of(ledger: Ledger, due: int) -> Counted:
    """Run FollowPayouts once with `due` payouts that the bank has accepted, but not paid."""
    from handlers import _dependencies  # noqa: PLC0415 - they read the environment
    from handlers.payouts import _bank, follow_payouts  # noqa: PLC0415

    for number in range(due):
        ledger.put(replace(state_of(number), listed_at=timestamp(NOW - timedelta(seconds=1))).to_row())
    bank = Bank(found=Found(Word.ACCEPTED))
    with (
        mock.patch.object(_dependencies, "store", signing(ledger).store),
        mock.patch.object(_dependencies, "now", return_value=NOW),
        mock.patch.object(_bank, "bank", return_value=bank),
        redirect_stdout(StringIO()),
        counted(ledger.client) as found,
    ):
        answer = follow_payouts.handler({}, Context())
    assert answer == {"lines": 0, "looked": due, "due": due, "cases": 0}, answer
    return found


# The tables


def cell(found: Counted) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(found.calls.items()))


def of_a_payout(ledger: Ledger) -> Iterator[str]:
    found, model = steps(ledger), model_of()
    titles = ("", "calls", "write units", "read units")
    rows = [(name, cell(one), f"{one.write_units:g}", f"{one.read_units:g}") for name, one in found.items()]
    units = (sum(one.write_units for one in found.values()), sum(one.read_units for one in found.values()))
    yield from table(titles, [*rows, ("together", "", f"{units[0]:g}", f"{units[1]:g}")])
    yield ""
    services = ("table", "functions", "machine", "logs", "HTTP API", "sum")
    ways: list[tuple[str, ...]] = []
    for name, by_machine in (("`POST /payouts`", False), (f"`StartExecution`, {transitions()} states", True)):
        bill, calls = model.bill(found, by_machine=by_machine)
        parts = (bill.database, bill.functions, bill.orchestration, bill.logs, calls, bill.total + calls)
        ways.append((name, *(f"{one:.1f}" for one in parts)))
    yield from table(("dollars per million", *services), ways)


def of_runs(new: Callable[[str], Ledger], sizes: tuple[int, ...]) -> Iterator[str]:
    prices = cost.load(_PRICES).prices
    rows: list[tuple[str, ...]] = []
    for size in sizes:
        ledger = new(f"open-{size}")
        fill(ledger, range(DUE, size))
        idle, busy = run_of(ledger, 0), run_of(ledger, DUE)
        month = idle.read_units * prices["read_unit"] * _MINUTES_OF_MONTH
        units = (f"{busy.read_units:g}", f"{busy.write_units:g}", f"{idle.read_units:g}", f"{month:.2f}")
        rows.append((f"{size:,}", cell(busy), *units))
    titles = ("calls", "read units", "write units", "none due: read units", "dollars a month")
    yield from table((f"open payouts, {DUE} of them due", *titles), rows)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--open", type=int, nargs="+", default=list(OPEN), help="sizes of the runs' tables")
    sizes = tuple(parser.parse_args().open)
    logging.disable(logging.CRITICAL)
    with ExitStack() as stack:
        url = stack.enter_context(engine.dynamodb())

        def new(name: str) -> Ledger:
            place = engine.table(url, name, is_ours=True)
            return over(boto3.client("dynamodb", endpoint_url=place.url), place.table)

        for lines in (of_a_payout(new("one")), of_runs(new, sizes)):
            for line in lines:
                print(line, flush=True)
            print()


if __name__ == "__main__":
    main()
