"""The rivals in one run: paired rounds in rotating order, each rival in a process of its own."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks import engine
from benchmarks.rivals import ENTRANTS, Place

WARM_UP = 10
"""Settlements of each rival before the first one that counts."""

_ANSWER_SECONDS_MAX = 120
_ON_STACK_TABLE = ("ours", "ours-known", "bare", "durable-ours")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    """The usage of a rival's settlement. Its times are medians of paired ratios to the bare calls."""

    counted: Mapping[str, Any]
    wall_ratio: float
    cpu_ratio: float


class Process:
    """The process of a rival."""

    def __init__(self, name: str, place: Place) -> None:
        self._name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", name, place.url, place.table],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._read()

    def ask(self, *command: Any) -> dict[str, Any]:
        """Send a command, and return its answer."""
        assert self._process.stdin
        print(json.dumps(command), file=self._process.stdin, flush=True)
        return self._read()

    def end(self) -> None:
        """End the process."""
        with self._process:
            self._process.kill()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout
        watchdog = threading.Timer(_ANSWER_SECONDS_MAX, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        watchdog.cancel()
        assert line, f"{self._name}: its process ended or hung"
        answer: dict[str, Any] = json.loads(line)
        return answer


def run(rounds: int, say: Say) -> dict[str, Measured]:
    """Measure every rival."""
    with started() as processes:
        for name, process in processes.items():
            say(f"rivals: {ENTRANTS[name].title}: warm")
            for _ in range(WARM_UP):
                process.ask("settle")
        times = _times(processes, rounds, say)
        counted = {name: process.ask("count") for name, process in processes.items()}
    bare = times["bare"]
    return {
        name: Measured(
            counted=counted[name],
            wall_ratio=_ratio(times[name], bare, "wall_ms"),
            cpu_ratio=_ratio(times[name], bare, "cpu_ms"),
        )
        for name in processes
    }


@contextmanager
def started() -> Iterator[dict[str, Process]]:
    """Start the servers, and each rival in a process of its own."""
    with ExitStack() as stack:
        url, postgresql = stack.enter_context(engine.dynamodb()), stack.enter_context(engine.postgresql())
        processes = {}
        for name in ENTRANTS:
            is_ours = name in _ON_STACK_TABLE
            place = postgresql if name == "dbos" else engine.table(url, name, is_ours=is_ours)
            processes[name] = Process(name, place)
            stack.callback(processes[name].end)
        yield processes


def _times(processes: Mapping[str, Process], rounds: int, say: Say) -> dict[str, list[dict[str, float]]]:
    names = list(processes)
    times: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(processes[name].ask("settle"))
        if (turn + 1) % 20 == 0:
            say(f"rivals: round {turn + 1} of {rounds}")
    return times


def _ratio(own: list[dict[str, float]], base: list[dict[str, float]], of: str) -> float:
    return median(one[of] / other[of] for one, other in zip(own, base, strict=True))
