"""Simulates a caller who takes guessable execution names before the stage does."""

import re
from typing import TYPE_CHECKING, Any

from tests.simulation.seeded.facts import demand, settlement_in
from tests.world.interpreter import Machines

if TYPE_CHECKING:
    from tests.simulation.seeded.world import World

EVERY = 11

_GUESSED = re.compile(r".+-(r|c|compensate-)\d+(-00000000|-00c0ffee)?")
"""Names that the stranger takes: of key and epoch alone, or with a guessed nonce."""


class Stranger:
    """A world's stranger, and the rule on takeovers, which holds in every world."""

    def __init__(self, world: "World", *, is_there: bool) -> None:
        self._world, self._is_there = world, is_there

    def take(self, machines: Machines, machine: str, name: str) -> None:
        """Take a guessable name just before its first start.

        Step Functions keeps a name for 90 days, so taking it earlier makes no difference.
        """
        if not (self._is_there and _GUESSED.fullmatch(name)):
            return
        if not any((one.machine, one.name) == (machine, name) for one in machines.executions):
            Machines.start(machines, machine, {}, name).status = "FAILED"

    def informed(self, message: str, told: dict[str, Any]) -> None:
        """Check that a settlement reported as recovered has its own execution."""
        if message != "recovered":
            return
        key, name = told["settlement"], told["execution_started"]
        begun = (one.begun_with for one in self._world.cloud.machines.executions if one.name == name)
        own = any((settlement_in(data) or data).get("key") == key for data in begun)
        demand(own, "the execution of a takeover begins", key, name)
