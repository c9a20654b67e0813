"""The scheduled proof of the books, page by page among the other calls: it must not cry wolf, nor sleep."""

from typing import TYPE_CHECKING, Any

from tests.simulation.seeded.facts import POISON, demand
from tests.simulation.seeded.people import MINUTE_MS

if TYPE_CHECKING:
    from tests.simulation.seeded.world import World

RUN_MS_MAX = 900_000
"""Lambda ends a function after this time."""

LONG_MS = 24 * 3_600_000
"""Time enough for a run to end without faults."""


class Proof:
    """The runs of ReconcileBooks: by its schedule, by hand, or twice at once."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._runs = 0

    def begin(self) -> None:
        """Let some runs begin at moments of the seed; each may meet faults, or die."""
        chance = self._world.chance
        self._world.table.page_rows = chance.one_of((1, 2, 5))
        for _ in range(chance.one_of((1, 2, 3))):
            at = chance.within(50, chance.one_of((2_000, MINUTE_MS, 20 * MINUTE_MS)))
            for _ in range(1 + chance.happens(0.2)):
                self._runs += 1
                self._world.hub.spawn(self._run, "the proof's schedule", at)

    def at_the_end(self) -> None:
        """Demand that a run without faults proves a world in which everything has ended."""
        if not self._runs:
            return
        answers: list[Any] = []
        self._world.hub.spawn(lambda: answers.append(self.answer()), "the last proof")
        self._world.hub.run(self._world.hub.now + LONG_MS, lambda: bool(answers))
        demand(answers and answers[0] is not None, "a run without faults ends")
        named = [*of_the_world(answers[0]["faults"]), *of_the_world(answers[0]["unproven"])]
        demand(not named, "a run without faults proves the whole table", named)

    def answer(self) -> Any:
        """Call the function, and return its answer; None if it dies or is too late."""
        world = self._world
        call = world.cloud.call("ReconcileBooks", {})
        world.hub.wait(call.answer, RUN_MS_MAX)
        return call.answer.value if isinstance(call.answer.value, dict) else None

    def _run(self) -> None:
        rows = len(self._world.table.items)
        answer = self.answer()
        if answer is None:
            return
        is_whole = answer["rows"] >= rows  # no row is ever deleted
        demand(is_whole or not answer["conserved"], "a table that is read in part is not proven", answer)
        self._world.count("ProofCutOff" if answer["unproven"] else "Proven", 1)
        if "its second look was cut off" in str(answer["unproven"]):
            self._world.count("SecondLookCutOff", 1)
        faults = of_the_world(answer["faults"])
        demand(not faults, "the proof names no fault in a lawful world", faults)
        is_sure = answer["conserved"] or answer["unproven"] or answer["faults"]
        demand(is_sure, "a run that proves nothing says what it did not prove", answer)


def of_the_world(named: list[str]) -> list[str]:
    """Return the findings less those about the rows that a seed has made unreadable on purpose."""
    return [one for one in named if not one.partition(": ")[0].endswith(POISON)]
