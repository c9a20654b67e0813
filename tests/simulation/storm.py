"""Runs the real RecoverStalled on a storm of stalls, in simulated time, under AWS quotas.

A run's threads share its processor. `python -m tests.simulation.storm 100000` prints a storm's end.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import count
from random import Random
from typing import Any
from unittest import mock

from tests.world.environment import NOW  # isort: split

from handlers import _dependencies
from handlers.core import _workers, recover_stalled
from settlement.aws import step_functions as _step_functions
from settlement.core import telemetry
from settlement.core.ledger import forward, keys
from settlement.core.ledger.keys import Row
from settlement.core.model.settlement import Settlement
from settlement.core.model.status import Status, Step
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import to_wire
from tests.simulation.seeded.hub import Hub, Process
from tests.world.definitions import COMPENSATION, EXPRESS, STANDARD
from tests.world.memory_dynamodb import MemoryDynamoDb, error
from tests.world.step_functions import StepFunctions as Fake
from tests.world.step_functions import client_error

RUN_MS, LOOK_CPU_MS, START_CPU_MS = 75_000, 10, 4
"""A run's time; the processor time of a look with one start, and of each further start.

1,024 MB get 0.6 of a processor.
"""

READ_MS, WRITE_MS, QUERY_MS, START_MS, DESCRIBE_MS = 5, 8, 20, 40, 20
SETTLES_MS = 1_500
"""Milliseconds: latencies of the services, and the time that a resumed settlement takes."""

STATES = 4
"""The number of states that a settlement enters, even a resumed one."""

NEW_PER_SECOND = 500
TAKEOVER_UNITS, SETTLING_UNITS, INDEX_UNITS = 3, 20, 2
"""Write units of a takeover, of a settlement, and of either in the index."""

STALLED_AT = [list(Step)[:committed] for committed in range(len(Step))]
LEFT_UNITS = [20, 13, 11, 5]
"""The stalled settlements' committed steps, in turn, and the write units that each of them still needs."""


class Bucket:
    """A token bucket, refilled per second. A refused call takes nothing."""

    def __init__(self, size: float, per_second: float) -> None:
        self._size, self._per_ms = size, per_second / 1000
        self._left, self._at = size, 0
        self.refused = 0

    def takes(self, tokens: float, now_ms: int) -> bool:
        self._left = min(self._size, self._left + (now_ms - self._at) * self._per_ms)
        self._at = now_ms
        if self._left < tokens:
            self.refused += 1
            return False
        self._left -= tokens
        return True


@dataclass
class Quotas:
    """AWS's default quotas outside its three largest regions, read on 2026-11-22.

    The table takes twice its previous peak, each index partition 1,000 units a second.
    """

    express: Bucket = field(default_factory=lambda: Bucket(6_000, 6_000))
    standard: Bucket = field(default_factory=lambda: Bucket(800, 150))
    transitions: Bucket = field(default_factory=lambda: Bucket(800, 800))
    describe: Bucket = field(default_factory=lambda: Bucket(250, 10))
    table: Bucket = field(default_factory=lambda: Bucket(20_000, 20_000))
    index: list[Bucket] = field(
        default_factory=lambda: [Bucket(1_000, 1_000) for _ in range(keys.IN_FLIGHT_SHARDS)]
    )


def quotas_of_large_regions() -> Quotas:
    return Quotas(standard=Bucket(1_300, 300), transitions=Bucket(5_000, 5_000))


@dataclass
class Storm:
    """Stalled settlements, all due, while others arrive at `NEW_PER_SECOND`."""

    stalled: int
    quotas: Quotas = field(default_factory=Quotas)
    status: Status = Status.PROCESSING
    per_second: float = 500
    resumed: dict[str, int] = field(default_factory=dict)
    """Latest accepted start per settlement, in milliseconds."""

    started: Counter[str] = field(default_factory=Counter)
    compensated: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    counted: Counter[str] = field(default_factory=Counter)
    behind: list[float] = field(default_factory=list)
    """Recovery's delay per minute, in seconds."""

    cpus: dict[Process, "_Cpu"] = field(default_factory=dict)
    new_refused: int = 0

    def __post_init__(self) -> None:
        self.hub = Hub(Random(1))
        self.table = MemoryDynamoDb()
        self.due = set(self._stall())
        self.left = set(self.due)

    def run(self, minutes: int) -> None:
        with self._in_place():
            self.hub.spawn(self._come_in, "new settlements")
            self.hub.spawn(self._schedule, "the schedules")
            self.hub.run(minutes * 60_000, lambda: self.is_over)
            self.hub.close()

    @property
    def is_over(self) -> bool:
        return not self.left

    @property
    def seconds(self) -> float:
        """Seconds until the last settlement was resumed."""
        return max(self.resumed.values()) / 1000

    def _stall(self) -> Iterator[str]:
        settlement = Settlement(
            key="stalled-000000", payer="alice", payee="bob", amount=4820, currency="EUR", fee=48
        )
        for number in range(self.stalled):
            claimed = NOW - timedelta(seconds=30, milliseconds=number * 1000 // NEW_PER_SECOND)
            made = replace(settlement, key=f"stalled-{number:06}")
            row: Row = dict(forward.claim(made, "first", claimed, _dependencies.config).parameters["Item"])
            row |= {step.slot: timestamp(claimed) for step in STALLED_AT[number % len(STALLED_AT)]}
            self.table.put_item(TableName="storm", Item=to_wire(row | {"status": self.status}))
            yield made.key

    def _schedule(self) -> None:
        for minute in count(1):
            for partition in recover_stalled.PARTITIONS:
                self.hub.spawn(partial(self._recover, partition), partition)
            self.hub.sleep(minute * 60_000 - self.hub.now)

    def _recover(self, partition: str) -> None:
        self.cpus[self.hub.process] = _Cpu()
        recover_stalled.handler({"partition": partition}, _Context(self.hub))

    def _come_in(self) -> None:
        burst, quotas = 10, self.quotas
        for number in count(1):
            for shard in range(burst):
                granted = quotas.express.takes(1, self.hub.now)
                granted &= quotas.index[shard % len(quotas.index)].takes(INDEX_UNITS, self.hub.now)
                granted &= quotas.table.takes(SETTLING_UNITS, self.hub.now)
                self.new_refused += not granted
            self.hub.sleep(number * burst * 1000 // NEW_PER_SECOND - self.hub.now)

    def settle(self, key: str, machine: str) -> None:
        for _ in range(STATES):
            while machine == STANDARD and not self.quotas.transitions.takes(1, self.hub.now):
                self.hub.sleep(100)
            self.hub.sleep(SETTLES_MS // STATES)
        units = LEFT_UNITS[int(key[-6:]) % len(STALLED_AT)]
        while not self.quotas.table.takes(units, self.hub.now):
            self.hub.sleep(500)
        self.table.update_item(
            TableName="storm",
            Key=to_wire(keys.settlement(key)),
            UpdateExpression="SET #status = :settled REMOVE gsi1pk, gsi1sk",
            ExpressionAttributeNames={"#status": "status"},
            ExpressionAttributeValues={":settled": {"S": "SETTLED"}},
        )
        self.settled.add(key)
        self.left.discard(key)

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        hub = self.hub
        store = Store(_Table(self), "storm", pause=lambda tries: hub.sleep(50 << tries))

        def publish(name: str, value: float, **_: Any) -> None:
            self.counted[name] += int(value)
            if name == "RecoveryBehindSeconds":
                self.behind.append(value)

        replaced: dict[tuple[Any, str], Any] = {
            (_dependencies, "store"): store,
            (_dependencies, "now"): lambda: NOW + timedelta(milliseconds=hub.now),
            (_dependencies, "random"): Random(2),
            (_step_functions, "_client"): _Machines(self),
            (_workers, "each"): self._each,
            (_workers, "pause"): lambda seconds: hub.sleep(int(seconds * 1000)),
            (_workers, "starts_per_second"): lambda: self.per_second / keys.IN_FLIGHT_SHARDS,
            (telemetry, "called"): lambda *_: None,
            (telemetry.metrics, "add_metric"): publish,
            (telemetry.metrics.provider, "flush_metrics"): lambda *_, **__: None,
            **{(telemetry.logger, name): lambda *_, **__: None for name in _LOGGER},
        }
        with ExitStack() as stack:
            for (place, name), value in replaced.items():
                stack.enter_context(mock.patch.object(place, name, value))
            yield

    def _each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        todo, results, cpu = enumerate(items), dict[int, Any](), self.cpus[self.hub.process]

        def work() -> None:
            self.cpus[self.hub.process] = cpu
            for number, item in todo:
                results[number] = function(item)

        threads = [self.hub.spawn(work, "a thread") for _ in range(_workers.THREADS)]
        for thread in threads:
            self.hub.wait(thread.ended)
        return [results[number] for number in sorted(results)]


_LOGGER = ("info", "warning", "error", "append_keys", "structure_logs")


@dataclass
class _Cpu:
    free_at: int = 0

    def work(self, hub: Hub, milliseconds: int) -> None:
        self.free_at = max(self.free_at, hub.now) + milliseconds
        hub.sleep(self.free_at - hub.now)


class _Context:
    function_name, memory_limit_in_mb, aws_request_id = "simulated", 1024, "simulated"
    invoked_function_arn = "arn:aws:lambda:eu-west-1:123456789012:function:simulated"

    def __init__(self, hub: Hub) -> None:
        self._hub, self._until = hub, hub.now + RUN_MS

    def get_remaining_time_in_millis(self) -> int:
        return self._until - self._hub.now


class _Table:
    def __init__(self, storm: Storm) -> None:
        self._storm = storm

    def query(self, **parameters: Any) -> Any:
        self._storm.hub.sleep(QUERY_MS)
        return self._storm.table.query(**parameters)

    def get_item(self, **parameters: Any) -> Any:
        hub = self._storm.hub
        self._storm.cpus[hub.process].work(hub, LOOK_CPU_MS)
        hub.sleep(READ_MS)
        return self._storm.table.get_item(**parameters)

    def update_item(self, **parameters: Any) -> Any:
        hub, quotas = self._storm.hub, self._storm.quotas
        hub.sleep(WRITE_MS)
        key = parameters["Key"]["pk"]["S"].partition("#")[2]
        shard = int(keys.in_flight_index(key, "")["gsi1pk"].removeprefix(keys.IN_FLIGHT))
        if not quotas.index[shard].takes(INDEX_UNITS, hub.now) or not quotas.table.takes(
            TAKEOVER_UNITS, hub.now
        ):
            raise error("update_item", "ThrottlingException", "throttled")
        return self._storm.table.update_item(**parameters)


class _Machines:
    """Step Functions with quotas; an execution settles its settlement."""

    exceptions = Fake.exceptions

    def __init__(self, storm: Storm) -> None:
        self._storm = storm

    def start_execution(
        self,
        *,
        stateMachineArn: str,  # noqa: N803
        name: str,
        input: str,  # noqa: A002
    ) -> dict[str, Any]:
        storm, machine = self._storm, stateMachineArn.rpartition(":")[2]
        hub, quotas = storm.hub, storm.quotas
        quota = quotas.express if machine == EXPRESS else quotas.standard
        hub.sleep(START_MS)
        if not quota.takes(1, hub.now):
            storm.cpus[hub.process].work(hub, START_CPU_MS)  # processor time of the start that follows
            raise client_error("StartExecution", "ThrottlingException")
        data = json.loads(input)
        key = data["settlement"]["key"] if machine == COMPENSATION else data["key"]
        storm.resumed[key] = hub.now
        storm.started[machine] += 1
        if machine != COMPENSATION:
            hub.spawn(lambda: storm.settle(key, machine), name)
        else:
            storm.compensated.add(key)
            storm.left.discard(key)
        return {"executionArn": name}

    def describe_execution(self, *, executionArn: str) -> dict[str, str]:  # noqa: N803
        self._storm.hub.sleep(DESCRIBE_MS)
        if not self._storm.quotas.describe.takes(1, self._storm.hub.now):
            raise client_error("DescribeExecution", "ThrottlingException")
        raise client_error(
            "DescribeExecution", "ExecutionDoesNotExist", Fake.exceptions.ExecutionDoesNotExist
        )


if __name__ == "__main__":
    storm = Storm(int(sys.argv[1]))
    storm.run(minutes=60)
    print(
        f"{len(storm.settled)} settled, {len(storm.compensated)} reversed; resumed in {storm.seconds:.0f} s"
    )
    print(f"started: {dict(storm.started)}; the last one was over after {storm.hub.now / 1000:.0f} s")
    print(f"behind, by minutes: {storm.behind}; new refused: {storm.new_refused}; {dict(storm.counted)}")
