"""Dollars per million settlements, from units, calls, times and bytes: pure arithmetic."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

MILLION = 1_000_000
GB_BYTES = 1e9
_EXPRESS_STEP_MS = 100
"""Step Functions rounds an Express execution's duration up to this."""

_BATCH_BYTES_MAX = 6e6
"""Lambda's limit for a batch of a stream."""


@dataclass(frozen=True)
class Tariff:
    """Prices per unit, and the assumptions that no local run can measure."""

    prices: Mapping[str, float]
    model: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The resources that one settlement takes.

    `cpu_ms` is on a whole vCPU. `waiting_ms` is the time that functions wait for DynamoDB and the provider.
    `transitions` is the number of states that a machine enters; 0 means that no machine is used.
    """

    write_units: float = 0
    read_units: float = 0
    invocations: float = 0
    cpu_ms: float = 0
    waiting_ms: float = 0
    memory_mb: float = 0
    log_bytes: float = 0
    transitions: int = 0
    durable_operations: int = 0
    durable_bytes: float = 0

    def plus(self, more: "Usage") -> "Usage":
        """Return the sum of both usages, with this one's memory."""
        sums = {one.name: getattr(self, one.name) + getattr(more, one.name) for one in fields(self)}
        return Usage(**sums | {"memory_mb": self.memory_mb})

    def times(self, count: float) -> "Usage":
        return Usage(**{one.name: getattr(self, one.name) * count for one in fields(self)})


@dataclass(frozen=True)
class Bill:
    """Dollars per million settlements: the database, functions or containers, the machine, the logs."""

    database: float
    functions: float
    orchestration: float
    logs: float

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return self.database + self.functions + self.orchestration + self.logs


def load(path: Path) -> Tariff:
    """Read the prices and the model from a TOML file."""
    content = tomllib.loads(path.read_text())
    prices = {name: price["usd"] / price["per"] for name, price in content["price"].items()}
    return Tariff(prices, content["model"])


def function_ms(usage: Usage, tariff: Tariff) -> float:
    """Return the billed time of a settlement's functions. Less memory slows the CPU, not the waits."""
    share = min(1.0, usage.memory_mb / tariff.model["memory_mb_of_a_vcpu"])
    return usage.waiting_ms + usage.cpu_ms / share


def express(usage: Usage, tariff: Tariff) -> Bill:
    """Return the bill of a settlement whose tasks an Express machine calls."""
    model = tariff.model
    lasts_ms = function_ms(usage, tariff) + usage.transitions * model["task_overhead_ms"]
    billed_ms = math.ceil(lasts_ms / _EXPRESS_STEP_MS) * _EXPRESS_STEP_MS
    gb_seconds = billed_ms / 1000 * model["express_memory_mb"] / 1024
    dollars = tariff.prices["express_request"] + gb_seconds * tariff.prices["express_gb_second"]
    return _bill(usage, tariff, orchestration=dollars)


def standard(usage: Usage, tariff: Tariff) -> Bill:
    """Return the bill of a settlement whose tasks a Standard machine calls."""
    return _bill(usage, tariff, orchestration=usage.transitions * tariff.prices["state_transition"])


def durable(usage: Usage, tariff: Tariff) -> Bill:
    """Return the bill of a settlement that one durable function runs."""
    dollars = usage.durable_operations * tariff.prices["durable_operation"]
    dollars += usage.durable_bytes / GB_BYTES * tariff.prices["durable_gb_written"]
    return _bill(usage, tariff, orchestration=dollars)


def servers(usage: Usage, tariff: Tariff, per_second: float) -> Bill:
    """Return the bill of a settlement on a database and containers, which also cost when idle.

    There are as many vCPUs as the settlements need, and at least those of the smallest containers.
    """
    prices, model = tariff.prices, tariff.model
    busy = per_second * usage.cpu_ms / 1000
    vcpus = max(model["containers"] * model["container_vcpu"], busy / model["container_utilisation"])
    gigabytes = vcpus * model["container_gb_of_a_vcpu"]
    an_hour = vcpus * prices["container_vcpu_hour"] + gigabytes * prices["container_gb_hour"]
    settlements = per_second * 3600
    bill = _bill(usage, tariff, orchestration=0)
    return Bill(
        database=prices["database_hour"] / settlements * MILLION,
        functions=an_hour / settlements * MILLION,
        orchestration=0,
        logs=bill.logs,
    )


def _bill(usage: Usage, tariff: Tariff, *, orchestration: float) -> Bill:
    prices = tariff.prices
    database = usage.write_units * prices["write_unit"] + usage.read_units * prices["read_unit"]
    functions = usage.invocations * prices["lambda_request"]
    gb_seconds = function_ms(usage, tariff) / 1000 * usage.memory_mb / 1024 if usage.memory_mb else 0
    functions += gb_seconds * prices["lambda_gb_second"]
    logs = usage.log_bytes / GB_BYTES * prices["log_gb"]
    return Bill(*(MILLION * dollars for dollars in (database, functions, orchestration, logs)))


def sealed_journal(per_second: float, shards: int, tariff: Tariff) -> float:
    """Return the dollars to put a million settlements into the sealed journal, at `per_second`."""
    reader = Reader(
        rows=tariff.model["journal_rows"],
        calls_alone=tariff.model["journal_rows"],
        window_seconds=tariff.model["journal_window_seconds"],
        batch_rows=_BATCH_BYTES_MAX / tariff.model["journal_row_bytes"],
        call_ms=tariff.model["journal_call_ms"],
        row_ms=tariff.model["journal_row_ms"],
        memory_mb=tariff.model["journal_memory_mb"],
    )
    return reader.dollars(per_second, shards, tariff, a_call=tariff.prices["s3_put"])


def outcome_events(per_second: float, shards: int, tariff: Tariff) -> float:
    """Return the dollars of a million settlements' outcome events, at `per_second`."""
    reader = Reader(
        rows=tariff.model["event_rows"],
        calls_alone=tariff.model["event_calls_alone"],
        window_seconds=tariff.model["events_window_seconds"],
        batch_rows=tariff.model["events_batch_rows"],
        call_ms=tariff.model["events_call_ms"],
        row_ms=tariff.model["events_row_ms"],
        memory_mb=tariff.model["events_memory_mb"],
    )
    return MILLION * tariff.model["events"] * tariff.prices["event"] + reader.dollars(
        per_second, shards, tariff
    )


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A function that reads the table's stream, in batches of up to `batch_rows`.

    A quiet stage pays more for each settlement, because after the window even a small batch is a call.
    `rows` counts a settlement's rows, and `calls_alone` its calls if it shares no batch.
    """

    rows: float
    calls_alone: float
    window_seconds: float
    batch_rows: float
    call_ms: float
    row_ms: float
    memory_mb: float

    def dollars(self, per_second: float, shards: int, tariff: Tariff, a_call: float = 0) -> float:
        """Return the dollars per million settlements, at `per_second`. Each call also costs `a_call`."""
        rows = self.rows * MILLION
        by_time = MILLION / per_second / self.window_seconds * shards
        calls = max(min(by_time, self.calls_alone * MILLION), rows / self.batch_rows)
        seconds = (calls * self.call_ms + rows * self.row_ms) / 1_000
        gb_seconds = seconds * self.memory_mb / 1_024
        prices = tariff.prices
        return calls * (a_call + prices["lambda_request"]) + gb_seconds * prices["lambda_gb_second"]
