"""Deployments of a stage: its settings change while settlements are in flight."""

import os
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from handlers import _dependencies, rooms
from settlement.core.model.stage_config import StageConfig

if TYPE_CHECKING:
    from tests.simulation.seeded.world import World

CONFIG = StageConfig.from_json(os.environ["STAGE_CONFIG"])
"""A stage whose clients set their fees as they like."""

FEES = (
    CONFIG,
    replace(CONFIG, fee="schedule"),
    replace(CONFIG, fee="schedule", fee_basis_points=900),
    replace(CONFIG, fee_floor_basis_points=50, fee_ceiling_basis_points=150),
)
"""Stages with other settings of their fees."""

RETAINS_EVERY, RETENTION_DAYS = 5, 3
"""In one world of so many, entries expire, after so many days: those are the worlds whose sealed journal is
played, too. It is longer than a world runs, and than the slack of the proof.
"""

SECONDS_MAX = 240
"""The longest time between two deployments; a review takes longer, and so does a deadline."""


class Deployments:
    """The stage's configurations: one after the other, each for the calls that begin under it."""

    def __init__(self) -> None:
        self.config = CONFIG
        self._since: list[tuple[int, StageConfig]] = [(0, CONFIG)]
        self.retention_days: int | None = None
        """The time for which the stage keeps its entries."""

        self.row_layout = 1
        """The newest layout that the functions write."""

        self.approvals: dict[str, int] = {}
        """How many persons each decision needs."""

    def deploy(self, config: StageConfig, now: int) -> None:
        """Give the functions another configuration, `now` in milliseconds."""
        days = self.retention_days
        config = replace(config, retention_days=days, shortest_retention_days=days, approvals=self.approvals)
        config = replace(config, row_layout=self.row_layout)
        self.config = config
        self._since.append((now, config))
        _dependencies.config = config
        _dependencies.store._adds = rooms.adds(config)

    @property
    def number(self) -> int:
        """How many deployments there have been."""
        return len(self._since)

    def in_force(self, since: int) -> tuple[StageConfig, ...]:
        """Return the configurations from an instant on: a call that freezes keeps that of its beginning."""
        later = tuple(config for at, config in self._since if at > since)
        return ([config for at, config in self._since if at <= since][-1], *later)


def fees_change(world: "World", random: Random) -> None:
    """Deploy other settings of the fees, some of them before the first request."""
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
    """Return whether the entries of a seed's world expire."""
    return seed % RETAINS_EVERY == RETAINS_EVERY - 1


def begin_to_need_persons(world: "World", approvals: dict[str, int]) -> None:
    """Let the decisions of a world need more persons than one."""
    if approvals:
        world.deployments.approvals = approvals
        world.deployments.deploy(world.config, 0)


def begin_to_expire(world: "World") -> None:
    """Let the stage of a world keep its entries for some days, and no longer."""
    world.deployments.retention_days = RETENTION_DAYS
    world.deployments.deploy(world.config, 0)
