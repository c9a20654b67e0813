"""Measure the good payments that the circuit gives back while some payments never get an answer.

A model in virtual time: payments come at random (a fixed seed), Step Functions calls VerifyKyc again after
one second and after two more, Lambda gives each call to an idle environment. The circuit is the real one,
over a table in memory.

    PYTHONPATH=lambdas .venv/bin/python benchmarks/poisoned.py
"""

import heapq
import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ |= {"AWS_DEFAULT_REGION": "eu-west-1", "POWERTOOLS_LOG_LEVEL": "CRITICAL"}

from settlement.http.circuit import State, Thresholds, payment
from settlement.http.shared_circuit import Lease, NotAdmitted, SharedCircuit
from settlement.kyc.circuit import CIRCUIT
from tests.world.memory_dynamodb import MemoryDynamoDb

SHARES_POISONED = (0.01, 0.05, 0.2)
LOADS = ((4, 2), (16, 20), (64, 20), (64, 60))
"""Environments, and payments a second."""

PAYMENTS = 30_000
ANSWER_SECONDS, FAILURE_SECONDS = 0.1, 0.5
RETRY_SECONDS = (1.0, 2.0)
"""The machine's waits before its second and third try, without their jitter."""

THRESHOLDS = Thresholds(failures=10, within_seconds=900, recovery_seconds=30)


@dataclass(order=True)
class Call:
    """A call of VerifyKyc, or the end of its exchange."""

    at: float
    number: int
    is_poisoned: bool = field(compare=False)
    tries: int = field(compare=False, default=0)


@dataclass
class Outcome:
    """The counts of one run."""

    good: int = 0
    given_back: int = 0
    opened: int = 0
    writes: int = 0

    @property
    def line(self) -> str:
        """The counts as cells of a table."""
        return f"{100 * self.given_back / self.good:.2f} % | {self.opened}"


class Model:
    """A stage under a steady load, in virtual time."""

    def __init__(self, environments: int, per_second: int, share_poisoned: float) -> None:
        self._random, self._share, self.now = random.Random(1), share_poisoned, 1e9  # noqa: S311
        self.outcome, self._per_second = Outcome(), per_second
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        table = Counted(MemoryDynamoDb(), self.outcome)
        self._idle = [
            SharedCircuit(CIRCUIT, table, "in-memory", THRESHOLDS, self._announce, lambda: int(self.now))
            for _ in range(environments)
        ]

    def run(self) -> Outcome:
        """Run the load, and let its last payments end."""
        at = self.now
        for number in range(PAYMENTS):
            at += self._random.expovariate(self._per_second)
            call = Call(at, number, self._random.random() < self._share)
            self._plan(at, lambda call=call: self._begin(call))  # type: ignore[misc]
        while self._events:
            self.now, _, happen = heapq.heappop(self._events)
            happen()
        return self.outcome

    def _announce(self, state: State) -> None:
        self.outcome.opened += state is State.OPEN

    def _plan(self, at: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._events, (at, self._random.getrandbits(62), happen))

    def _begin(self, call: Call) -> None:
        if not self._idle:  # Lambda would throttle it, and the machine try again
            self._plan(self.now + 0.1, lambda: self._begin(call))
            return
        guard = self._idle.pop(self._random.randrange(len(self._idle)))
        try:
            lease = guard.admit(payment(str(call.number)))
        except NotAdmitted as refusal:
            self._idle.append(guard)
            self._refused(call, is_final=refusal.state is State.OPEN)
            return
        takes = FAILURE_SECONDS if call.is_poisoned else ANSWER_SECONDS
        self._plan(self.now + takes, lambda: self._end(call, guard, lease))

    def _end(self, call: Call, guard: SharedCircuit, lease: Lease) -> None:
        self._idle.append(guard)
        if call.is_poisoned:
            guard.failed(lease)
            self._refused(call, is_final=False)
        else:
            guard.answered(lease)
            self.outcome.good += 1

    def _refused(self, call: Call, *, is_final: bool) -> None:
        if is_final or call.tries == len(RETRY_SECONDS):
            self.outcome.good += not call.is_poisoned
            self.outcome.given_back += not call.is_poisoned
            return
        again = self.now + RETRY_SECONDS[call.tries]
        call.tries += 1
        self._plan(again, lambda: self._begin(call))


class Counted:
    """A table that counts the writes."""

    def __init__(self, table: Any, outcome: Outcome) -> None:
        self._table, self._outcome = table, outcome

    def __getattr__(self, name: str) -> Any:
        self._outcome.writes += name == "put_item"
        return getattr(self._table, name)


def table() -> Iterator[str]:
    """Yield the lines of a table: each share with each load."""
    yield (
        "| poisoned | environments | payments a second | good ones given back | opened"
        " | writes for 100 payments |"
    )
    yield "|--:|--:|--:|--:|--:|--:|"
    for share in SHARES_POISONED:
        for environments, per_second in LOADS:
            outcome = Model(environments, per_second, share).run()
            writes = f"{100 * outcome.writes / PAYMENTS:.0f}"
            yield f"| {share:.0%} | {environments} | {per_second} | {outcome.line} | {writes} |"


def main() -> None:
    """Print the table."""
    for line in table():
        print(line, flush=True)


if __name__ == "__main__":
    main()
