"""Replays every call at every moment of a settlement's life, as if it had read early and written late.

A moment follows each commit. Some calls come out of turn, with other content or a wrong clock. Then
recovery alone must finish the settlement.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import groupby
from typing import Any, cast

from settlement.core.model.stage_config import StageConfig
from tests.simulation.seeded.chance import Chance, Script
from tests.simulation.seeded.checks import Checks
from tests.simulation.seeded.cloud import RunningExecution
from tests.simulation.seeded.facts import done, number, settlement_in, text, undone
from tests.simulation.seeded.hub import Killed
from tests.simulation.seeded.late_calls import (
    Asked,
    approvals,
    calls,
    cancellations,
    is_order,
    orders,
    posts,
)
from tests.simulation.seeded.oracle import Oracle
from tests.simulation.seeded.scenarios import KEY, SCENARIOS, Faults, live
from tests.simulation.seeded.stage import Current
from tests.simulation.seeded.weakened import NAMES
from tests.simulation.seeded.world import World, difference
from tests.world import expressions
from tests.world.environment import NOW
from tests.world.expressions import Item
from tests.world.memory_dynamodb import Changes, MemoryDynamoDb
from tests.world.values import normal

HOUR_MS = 3_600_000
CALL_MS_MAX = 120_000

Refused = frozenset[tuple[str, str]]
"""All failed conditions (place, name) of one refused write or transaction."""


@dataclass(frozen=True)
class Moment:
    """A world's state after a commit, if every process dies then."""

    now: int
    items: dict[tuple[str, str], Item]
    oracle: Oracle
    alerted: frozenset[tuple[str, int]]
    executions: tuple[tuple[str, str, Any, str], ...]
    """Machine, name, input and status."""

    config: StageConfig
    told: int
    """Number of the history's lines so far."""

    checks: int | None = None
    """The seed of the stage's checks."""

    def row(self, key: str) -> Item | None:
        return self.items.get((f"SETTLEMENT#{key}", "SETTLEMENT"))

    def state(self, key: str) -> Any:
        """Return a settlement's state without names and times."""
        row = self.row(key)
        if row is None:
            return None
        texts = tuple(text(row, name) for name in ("status", "verdict", "stuck_step"))
        sets = frozenset(done(row)), frozenset(undone(row))
        return *texts, *sets, number(row, "resolutions"), "review" in row, "expired_at" in row


class Recorded(World):
    def __post_init__(self) -> None:
        self.moments: list[Moment] = []
        super().__post_init__()

    def _committed(self, changes: Changes) -> None:
        super()._committed(changes)
        executions = self.cloud.machines.executions
        begun = tuple((one.machine, one.name, one.begun_with, one.status) for one in executions)
        alerted = frozenset(self.people.alerted)
        now, told, items = self.hub.now, len(self.history), dict(self.table.items)
        books, checks = self.oracle.copy(), self.checks.seed
        self.moments.append(Moment(now, items, books, alerted, begun, self.config, told, checks))


@dataclass(frozen=True)
class Late:
    """A call that can read at one moment, and act at a later one.

    Its first `early` DynamoDB calls are at `seen`, the rest at `acts`, where its clock leads by `ahead` ms.
    """

    call: str
    seen: int
    acts: int
    early: int = 0
    ahead: int = 0


class LateTable(MemoryDynamoDb):
    """The table at a moment, except that a late call's first calls see an earlier one."""

    def __init__(self, world: "Afterlife", was: Moment, late: Late) -> None:
        super().__init__(world._committed, items=world.acts.items)
        self._world, self._late, self._seen = world, late, was
        self.calls = 0
        self.first_commit: int | None = None
        """The number of the first committing call."""

        self.refused: list[Refused] = []

    @cached_property
    def _was(self) -> MemoryDynamoDb:
        return MemoryDynamoDb(_elsewhere, items=self._seen.items)

    def put_item(self, **parameters: Any) -> Any:
        return self._write("put_item", parameters, [parameters])

    def update_item(self, **parameters: Any) -> Any:
        return self._write("update_item", parameters, [parameters])

    def transact_write_items(self, **parameters: Any) -> Any:
        writes = [write for item in parameters["TransactItems"] for write in item.values()]
        return self._write("transact_write_items", parameters, writes)

    def get_item(self, **parameters: Any) -> Any:
        return (self._of_this_call() or cast(MemoryDynamoDb, super())).get_item(**parameters)

    def query(self, **parameters: Any) -> Any:
        return (self._of_this_call() or cast(MemoryDynamoDb, super())).query(**parameters)

    def _of_this_call(self) -> MemoryDynamoDb | None:
        self.calls += 1
        if self.calls > self._late.early:
            return None
        if self.calls == self._late.early:
            self._world.hub.process.skew = self._late.ahead
        return self._was

    def _write(self, name: str, parameters: Any, writes: Sequence[Mapping[str, Any]]) -> Any:
        if earlier := self._of_this_call():
            return getattr(earlier, name)(**parameters)
        failed = frozenset(atom for write in writes for atom in self._failed(write))
        if failed:
            self.refused.append(failed)
        elif self.first_commit is None:
            self.first_commit = self.calls
        return getattr(super(), name)(**parameters)

    def _failed(self, write: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        condition, key = write["ConditionExpression"], write.get("Key") or write["Item"]
        row = self.items.get((key["pk"]["S"], key["sk"]["S"]), {})
        names = write.get("ExpressionAttributeNames", {})
        values = {name: normal(value) for name, value in write.get("ExpressionAttributeValues", {}).items()}
        for one in condition.split(" AND "):
            if not expressions.condition(one).holds(row, names, values):
                yield getattr(condition, "place", ""), NAMES.get(one, one)


def _elsewhere(changes: Changes) -> None:
    """Kill a call that commits at the earlier moment, since this commit belongs to another life."""
    raise Killed


class Afterlife(Recorded):
    """A world that begins at another world's moment, without its processes."""

    def begin(self, moments: Sequence[Moment], late: Late, *, beside: bool) -> None:
        self.late, self.acts = late, (acts := moments[late.acts])
        self.hub.now, self.oracle = acts.now, acts.oracle.copy()
        self.deployments.retention_days = acts.config.retention_days
        self.deployments.approvals = dict(acts.config.approvals)
        self.deployments.deploy(acts.config, 0)
        self.checks = Checks(self, acts.checks)
        self.table: LateTable = LateTable(self, moments[late.seen], late)
        self.people.alerted = set(acts.alerted)
        self.table.page_rows = 1
        machines = self.cloud.machines
        for machine, name, data, status in acts.executions:
            begun = RunningExecution(machines, machine, name, data, machines.definitions[machine]["StartAt"])
            begun.begun_with, begun.status = data, status if beside else "ABORTED"
            machines.executions.append(begun)

    def bury(self) -> None:
        """Abort the executions that ran during the call. After early reads, also forget the payees.

        Early reads gave the environment's memory of payees the earlier moment's time.
        """
        if self.late.early:
            self.remembered.clear()
        for execution in self.cloud.machines.executions[: len(self.acts.executions)]:
            execution.status = "ABORTED"


@dataclass(frozen=True)
class Life:
    moments: list[Moment]
    settlement: dict[str, str]
    begins: int = 0
    """The first moment not shared with another life."""

    with_orders: bool = False
    with_cancels: bool = False
    with_posts: bool = False
    _asked: dict[tuple[int, int], dict[str, Asked]] = field(default_factory=dict)

    def row(self, at: int) -> Item | None:
        return self.moments[at].row(self.settlement["key"])

    @property
    def course(self) -> tuple[Any, ...]:
        key = self.settlement["key"]
        return tuple(state for state, _ in groupby(moment.state(key) for moment in self.moments))

    def after(self, late: Late, world: Afterlife) -> "Life":
        moments = [*self.moments[: late.acts + 1], *world.moments]
        return replace(self, moments=moments, begins=late.acts + 1, _asked={})

    def asked(self, seen: int, acts: int) -> dict[str, Asked]:
        if (seen, acts) not in self._asked:
            self._asked[seen, acts] = calls(self.settlement, self.row(seen), self.moments[acts].now)
            if self.moments[acts].config.approvals:
                self._asked[seen, acts] |= approvals(self.settlement["key"], self.moments[seen].items)
            if self.with_orders:
                self._asked[seen, acts] |= orders()
            if self.with_cancels:
                self._asked[seen, acts] |= cancellations(self.settlement, self.row(seen))
            if self.with_posts:
                self._asked[seen, acts] |= posts(self.settlement)
        return self._asked[seen, acts]


def record(current: Current, scenario: str, faults: Faults, *, is_told: bool = False) -> Life:
    """Run a scenario; return its moments, beginning with the last one before the claim."""
    world = live(current, scenario, faults, Recorded, is_told=is_told)
    settlement = next(
        found for call in world.cloud.calls if (found := settlement_in(call.payload)).get("key") == KEY
    )
    claimed = next(number for number, moment in enumerate(world.moments) if moment.row(KEY))
    own = SCENARIOS[scenario]
    return Life(
        world.moments[claimed - 1 :],
        settlement,
        with_orders=own.with_orders,
        with_cancels=own.with_cancels,
        with_posts=own.with_posts,
    )


def happen(
    current: Current, life: Life, late: Late, chance: Chance | None = None, *, is_told: bool = False
) -> Afterlife:
    """Make a late call, then let recovery finish; only `chance` causes faults."""
    asked, acts = life.asked(late.seen, late.acts)[late.call], life.moments[late.acts]
    world = current.world = Afterlife(chance or Script({}, asked.luck), is_told)
    world.begin(life.moments, late, beside=asked.beside)
    if is_told:
        if late.seen < late.acts:
            was = f"was at the call and its {late.early} first calls of the table"
            world.note("the settlement", was, _told(life.row(late.seen)))
        world.note("the settlement", "is", _told(life.row(late.acts)))
    made = world.cloud.call(asked.function, deepcopy(asked.payload))
    (process,) = world.cloud._running
    process.skew = life.moments[late.seen].now - acts.now if late.early else late.ahead
    made.since = life.moments[late.seen].now if late.early else made.since
    try:
        world.hub.run(acts.now + CALL_MS_MAX, lambda: made.answer.is_set)
        world.bury()
        world.table.calls = max(world.table.calls, late.early)  # the others see the current table
        world.stream.again(acts.items)  # not before: the late call makes the table's first calls
        started = len(world.cloud.machines.executions) > len(acts.executions)
        if chance or started or world.oracle.commits > acts.oracle.commits or not world.cloud.is_idle:
            world.hub.spawn(world.people.recover, "the schedule")
            world.run()
    finally:
        world.hub.close()
    return world


def _told(row: Item | None) -> str:
    return difference(None, row) if row else "unclaimed"


def everything(life: Life, calls_of: Callable[[Late], LateTable]) -> Iterator[Late]:
    """Yield each call at each moment and pair of moments; `calls_of` makes a call, and returns its table."""
    rows = [life.row(at) for at in range(len(life.moments))]
    read = {"SETTLEMENT#" + life.settlement["key"], "PROPOSAL#" + life.settlement["key"]}
    versions = [[id(row) for (pk, _), row in moment.items.items() if pk in read] for moment in life.moments]
    for seen, moment in enumerate(life.moments):
        is_new = versions[seen] not in versions[:seen]
        for call in life.asked(seen, seen):
            at_once = Late(call, seen, seen)
            if seen >= life.begins:
                wrong = (HOUR_MS, -HOUR_MS, overdue(rows[seen], moment.now))
                aheads = (0,) if is_order(call) else (0, *wrong)
                yield from (replace(at_once, ahead=ahead) for ahead in dict.fromkeys(aheads))
            if not is_new or " with other " in call or is_order(call):
                continue
            table = calls_of(at_once)
            for acts in range(max(seen, life.begins), len(life.moments)):
                if acts > seen:
                    yield Late(call, seen, acts)
                now = life.moments[acts].now
                behind = moment.now - now
                clocks = (0, behind, HOUR_MS, behind - HOUR_MS, overdue(rows[seen], now))
                for early in range(1, min(table.calls, table.first_commit or table.calls)):
                    for ahead in dict.fromkeys(clocks):
                        yield Late(call, seen, acts, early, ahead)


def overdue(row: Item | None, now: int) -> int:
    """Return by how many milliseconds a clock must lead to be just past the row's deadline."""
    if row is None:
        return 0
    left = datetime.fromisoformat(row["deadline_at"]["S"]) - NOW - timedelta(milliseconds=now)
    return left // timedelta(milliseconds=1) + 1
