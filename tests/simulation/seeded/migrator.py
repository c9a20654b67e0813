"""Simulates migrations and changes of the row layout during partial reversals."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ReadTimeoutError

from settle.migrations import runner
from settle.migrations.rows import PARTS, Direction, Phase
from settle.migrations.runner import Means, NotAlone
from settlement.core.model.errors import StoreUnavailable
from settlement.core.store.dynamodb import Store
from tests.simulation.seeded.chance import Streams
from tests.simulation.seeded.facts import demand
from tests.simulation.seeded.returns import comes_back
from tests.simulation.seeded.rules import MIGRATOR
from tests.world.environment import NOW
from tests.world.memory_dynamodb import error

if TYPE_CHECKING:
    from tests.simulation.seeded.world import World

MINUTE_MS = 60_000
LONG_MS = 3_600_000
"""Time limit of the last run, which may first wait for a dead run's lease."""


def migrates(seed: int) -> bool:
    return comes_back(seed) and Random(f"migrates {seed}").random() < 0.4


class Migrator:
    def __init__(self, world: "World", seed: int) -> None:
        self._world, self._random = world, Streams(f"migration {seed}", world.hub.place)
        self._is_there, self._changes = migrates(seed), Random(f"changes of mind {seed}")

    def begin(self) -> None:
        if not self._is_there:
            return
        chance, hub = self._random, self._world.hub
        for _ in range(chance.choice((1, 2, 3, 6))):
            within = chance.choice((1, 5, 20)) * MINUTE_MS
            hub.spawn(self._deploy, "a deployment", chance.randint(0, within))
        for number in range(chance.choice((2, 4, 8))):
            hub.spawn(partial(self._run, f"{number}"), MIGRATOR, chance.randint(1_000, 30 * MINUTE_MS))
        if chance.random() < 0.5:
            hub.spawn(self._pause, MIGRATOR, chance.randint(1_000, 20 * MINUTE_MS))
        if self._changes.random() < 0.4:
            hub.spawn(self._change_minds, MIGRATOR, self._changes.randint(1_000, 5 * MINUTE_MS))

    def at_the_end(self) -> None:
        """Check that a run without faults leaves no row in the old form."""
        if not self._is_there:
            return
        world, ended = self._world, list[bool]()

        def run() -> None:
            while not self._run("the last one"):
                world.hub.sleep(MINUTE_MS)
            ended.append(True)

        world.hub.spawn(run, MIGRATOR)
        world.hub.run(world.hub.now + LONG_MS, lambda: bool(ended))
        demand(ended, "a migration without faults ends")
        left = PARTS.needs[self._direction]
        rows = [key for key, row in world.oracle.settlements.items() if left in row]
        demand(not rows, "a migration leaves no row behind", rows)

    @property
    def _direction(self) -> Direction:
        is_forward = self._world.config.row_layout >= PARTS.layout
        return Direction.FORWARD if is_forward else Direction.BACK

    def _deploy(self) -> None:
        world = self._world
        if not world.chance.faults_end:
            world.deployments.row_layout = 3 - world.deployments.row_layout
            world.note("a deployment", "lets functions write layout", world.deployments.row_layout)
            world.deployments.deploy(world.config, world.hub.now)

    def _change_minds(self) -> None:
        pages = iter(range(self._changes.randint(3, 40)))
        slow = replace(
            self._means(),
            units_per_second=0.2,
            alarm=lambda: "APerson" if next(pages, None) is None else None,
        )
        self._run("the one that is stopped", slow)
        for _ in range(2):
            self._deploy()
            self._world.hub.sleep(self._changes.randint(1_000, 10 * MINUTE_MS))

    def _run(self, name: str, means: Means | None = None) -> bool:
        self._world.note(MIGRATOR, f"{name} begins", self._direction)
        try:
            progress = runner.run(means or self._means(), PARTS, self._direction, name)
        except (NotAlone, StoreUnavailable) as stopped:
            self._world.count(f"migration {type(stopped).__name__}", 1)
            return False
        self._world.count(f"migration {progress.phase}", 1)
        self._world.count(f"rows migrated {progress.direction}", 1 if progress.changed else 0)
        return progress.phase is Phase.DONE

    def _pause(self) -> None:
        try:
            runner.pause(self._means(), PARTS, "a person paused it")
        except StoreUnavailable:
            self._world.count("migration not paused", 1)

    def _means(self) -> Means:
        world, chance = self._world, self._random
        return Means(
            store=Store(Client(world, chance), "simulated", pause=lambda failed_tries: world.hub.sleep(50)),
            now=lambda: NOW + timedelta(milliseconds=world.hub.now),
            sleep=lambda seconds: world.hub.sleep(int(seconds * 1_000)),
            deployment=lambda: f"{world.deployments.number}",
            alarm=lambda: "LimboOpen" if self._faults() and chance.random() < 0.02 else None,
            units_per_second=chance.choice((0.2, 1, 50)),
        )

    def _faults(self) -> bool:
        return not self._world.chance.faults_end


class Client:
    """DynamoDB with the runner's faults: death, throttling, lost answers, pauses."""

    def __init__(self, world: "World", chance: Random) -> None:
        self._world, self._random = world, chance

    def __getattr__(self, name: str) -> Callable[..., Any]:
        effect = getattr(self._world.table, name)

        def call(**parameters: Any) -> Any:
            hub, fault = self._world.hub, self._fault()
            if fault == "stands still":
                hub.sleep(self._random.choice((5_000, MINUTE_MS)))
            elif fault == "died before":
                hub.kill(hub.process)
            elif fault == "throttled":
                raise error(name, "ThrottlingException", "Rate exceeded")
            hub.sleep(self._random.randint(1, 200))
            answer = effect(**parameters)
            if fault == "died after":
                hub.kill(hub.process)
            hub.sleep(self._random.randint(1, 200))
            if fault == "lost":
                raise ReadTimeoutError(endpoint_url="https://service.invalid")
            return answer

        return call

    def _fault(self) -> str:
        if self._world.chance.faults_end or self._random.random() > 0.06:
            return ""
        return self._random.choice(("stands still", "died before", "died after", "throttled", "lost"))
