"""Measure a settlement and the reconciliation on tables of growing size."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks import engine, history
from benchmarks.interleave import WARM_UP, Process
from benchmarks.rivals import Place
from settlement.core.ledger.keys import Row

SIZES = (1_000, 10_000, 100_000, 1_000_000)
SETTLED_SIZE_MAX = 100_000
"""The largest table on which settlements are timed; a larger one is only reconciled."""

_ROUNDS_MAX = 60
_RECONCILE_SECONDS_MAX = 3600


@dataclass(frozen=True)
class Grown:
    """A settlement and the reconciliation on a table with `settlements` finished settlements.

    Ratios are to the smallest table of the run. The reconciliation's CPU is per settlement.
    """

    settlements: int
    calls: int | None
    write_units: float | None
    wall_ratio: float | None
    reconcile_cpu_ratio: float
    reconcile_mb: float


def run(largest: int, rounds: int, say: Callable[[str], None]) -> list[Grown]:
    """Fill a table for each size, reconcile it, and settle on it, interleaved with the others."""
    with engine.dynamodb() as url:
        first = engine.table(url, "growth-recorded", is_ours=True)
        rows, key = _recorded(first)
        proofs, processes = {}, {}
        try:
            for size in (size for size in SIZES if size <= largest):
                place = engine.table(url, f"growth-{size}", is_ours=True)
                history.fill(place, size, rows, key)
                say(f"growth: {size:,} settlements written")
                proofs[size] = _reconcile(place)
                say(f"growth: {size:,} settlements reconciled in {proofs[size]['mb']:.0f} MB")
                if size <= SETTLED_SIZE_MAX:
                    processes[size] = Process("ours", place)
            return _measure(processes, proofs, min(rounds, _ROUNDS_MAX))
        finally:
            for process in processes.values():
                process.end()


def _recorded(place: Place) -> tuple[list[Row], str]:
    """Settle once on an empty table; return the rows that it leaves, and its key."""
    process = Process("ours", place)
    key = process.ask("count")["key"]
    process.end()
    return history.rows_of_one(place, key), key


def _reconcile(place: Place) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.probe", place.url, place.table],
        check=True,
        stdout=subprocess.PIPE,
        timeout=_RECONCILE_SECONDS_MAX,
        text=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _measure(processes: dict[int, Process], proofs: dict[int, dict[str, Any]], rounds: int) -> list[Grown]:
    for process in processes.values():
        for _ in range(WARM_UP):
            process.ask("settle")
    walls: dict[int, list[float]] = {size: [] for size in processes}
    for _ in range(rounds):
        for size, process in processes.items():
            walls[size].append(process.ask("settle")["wall_ms"])
    counted = {size: process.ask("count") for size, process in processes.items()}
    smallest = min(proofs)
    base = proofs[smallest]["seconds"] / smallest
    return [
        Grown(
            settlements=size,
            calls=len(counted[size]["calls"]) if size in counted else None,
            write_units=counted[size]["write_units"] if size in counted else None,
            wall_ratio=median(own / first for own, first in zip(walls[size], walls[smallest], strict=True))
            if size in walls
            else None,
            reconcile_cpu_ratio=proof["seconds"] / size / base,
            reconcile_mb=proof["mb"],
        )
        for size, proof in proofs.items()
    ]
