"""Deployments that change settings while settlements are in flight."""

import os
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from handlers import _dependencies, rooms
from settlement.core.model.stage_config import StageConfig

if TYPE_CHECKING:
    from tests.simulation.seeded.world import World

CONFIG = StageConfig.from_json(os.environ["STAGE_CONFIG"])
"""The initial configuration, in which clients set their fees freely."""

FEES = (
    CONFIG,
    replace(CONFIG, fee="schedule"),
    replace(CONFIG, fee="schedule", fee_basis_points=900),
    replace(CONFIG, fee_floor_basis_points=50, fee_ceiling_basis_points=150),
)

RETAINS_EVERY, RETENTION_DAYS = 5, 3
"""Entries expire in one world of RETAINS_EVERY, after RETENTION_DAYS.

The retention exceeds a world's length and the proof's slack.
"""

SECONDS_MAX = 240
"""Maximum time between deployments, shorter than a review or deadline."""


class Deployments:
    """Configurations over time, each for the calls that begin under it."""

    def __init__(self) -> None:
        self.config = CONFIG
        self._since: list[tuple[int, StageConfig]] = [(0, CONFIG)]
        self.retention_days: int | None = None
        self.row_layout = 1
        self.approvals: dict[str, int] = {}
        """Persons needed per decision."""

    def deploy(self, config: StageConfig, now: int) -> None:
        days = self.retention_days
        config = replace(config, retention_days=days, shortest_retention_days=days, approvals=self.approvals)
        config = replace(config, row_layout=self.row_layout)
        self.config = config
        self._since.append((now, config))
        _dependencies.config = config
        _dependencies.store._adds = rooms.adds(config)

    @property
    def number(self) -> int:
        return len(self._since)

    def in_force(self, since: int) -> tuple[StageConfig, ...]:
        """Return the configurations in force since a time, because a frozen call keeps its first."""
        later = tuple(config for at, config in self._since if at > since)
        return ([config for at, config in self._since if at <= since][-1], *later)


def fees_change(world: "World", random: Random) -> None:
    if random.random() < 0.5:
        world.deployments.deploy(random.choice(FEES[1:]), world.hub.now)

    def deploy() -> None:
        for _ in range(random.randint(1, 4)):
            world.hub.sleep(random.randint(100, SECONDS_MAX * 1_000))
            config = random.choice(FEES)
            world.note("a deployment", "sets", f"{config.fee} {config.fee_basis_points}")
            world.deployments.deploy(config, world.hub.now)

    world.hub.spawn(deploy, "a deployment")


def retains(seed: int) -> bool:
    return seed % RETAINS_EVERY == RETAINS_EVERY - 1


def begin_to_need_persons(world: "World", approvals: dict[str, int]) -> None:
    if approvals:
        world.deployments.approvals = approvals
        world.deployments.deploy(world.config, 0)


def begin_to_expire(world: "World") -> None:
    world.deployments.retention_days = RETENTION_DAYS
    world.deployments.deploy(world.config, 0)
