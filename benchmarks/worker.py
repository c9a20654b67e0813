"""The process of one rival: it settles on command, and reports its usage. JSON lines in and out."""

import importlib
import io
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.rivals import ENTRANTS, Attempt, Place
from benchmarks.wire import Wire


class Worker:
    """One rival, and the keys of its settlements."""

    def __init__(self, name: str, place: Place) -> None:
        self._log = io.StringIO()
        sys.stdout = self._log  # before the imports: loggers keep the stream
        self._wire = Wire()
        self._wire.watch()
        entrant = ENTRANTS[name]
        module = importlib.import_module(f"benchmarks.rivals.{entrant.module}")
        options = {"wire": self._wire} if name == "bare" else entrant.options
        self._rival = module.enter(place, **options)
        self._settled = 0

    def settle(self) -> dict[str, float]:
        """Settle once; return the wall time and the CPU time in ms."""
        attempts = self._next()
        wall, cpu = time.perf_counter(), time.process_time()
        for attempt in attempts:
            attempt()
        return {
            "wall_ms": (time.perf_counter() - wall) * 1000,
            "cpu_ms": (time.process_time() - cpu) * 1000,
        }

    def count(self) -> dict[str, Any]:
        """Settle once; return the calls, the units and the log."""
        attempts = self._next()
        for attempt in attempts:
            attempt()
        log = self._log.getvalue()
        calls = self._wire.calls
        counted = {
            "key": self._key,
            "calls": [call.operation for call in calls],
            "write_units": sum(call.units for call in calls if call.is_write),
            "read_units": sum(call.units for call in calls if not call.is_write),
            "by_rule": sum(call.by_rule for call in calls if call.is_write),
            "log_bytes": len(log.encode()),
            "log_lines": log.count("\n"),
        }
        extra: dict[str, int] = getattr(self._rival, "extra", dict)()
        return counted | extra

    def _next(self) -> Sequence[Attempt]:
        self._settled += 1
        self._key = f"order-bench-{self._settled:09}"
        attempts: Sequence[Attempt] = self._rival.attempts(self._key)
        self._wire.calls.clear()
        self._wire.sent.clear()
        self._log.seek(0)
        self._log.truncate()
        return attempts


def main() -> None:
    """Serve commands until the input ends."""
    channel = sys.stdout
    name, url, table = sys.argv[1:]
    worker = Worker(name, Place(url, table))
    print("{}", file=channel, flush=True)
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        answer = getattr(worker, command)(*arguments)
        print(json.dumps(answer), file=channel, flush=True)


if __name__ == "__main__":
    main()
