"""Checks that the scheduled proof, among other calls, raises no false alarm and hides no fault."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from settlement.core.model.timestamps import timestamp
from tests.simulation.seeded.facts import POISON, demand, text
from tests.simulation.seeded.people import MINUTE_MS
from tests.world.environment import NOW
from tests.world.expressions import Item

if TYPE_CHECKING:
    from tests.simulation.seeded.world import World

RUN_MS_MAX = 900_000
"""The timeout of ReconcileBooks."""

AHEAD_MS_MAX = 3_600_000
"""How far ahead the index may list a settlement that is not in review."""

REVIEW_AHEAD_MS_MAX = 30 * 24 * 3_600_000 + AHEAD_MS_MAX
"""How far ahead the index may list a settlement in review."""

LONG_MS = 24 * 3_600_000
"""Time limit of a run without faults."""


class Proof:
    """Scheduled, manual or concurrent runs of ReconcileBooks."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._runs = 0

    def begin(self) -> None:
        chance = self._world.chance
        self._world.table.page_rows = chance.one_of((1, 2, 5))
        for _ in range(chance.one_of((1, 2, 3))):
            at = chance.within(50, chance.one_of((2_000, MINUTE_MS, 20 * MINUTE_MS)))
            for _ in range(1 + chance.happens(0.2)):
                self._runs += 1
                self._world.hub.spawn(self._run, "the proof's schedule", at)

    def at_the_end(self) -> None:
        if not self._runs:
            return
        answers: list[Any] = []
        self._world.hub.spawn(lambda: answers.append(self.answer()), "the last proof")
        self._world.hub.run(self._world.hub.now + LONG_MS, lambda: bool(answers))
        demand(answers and answers[0] is not None, "a run without faults ends")
        named = [*of_the_world(answers[0]["faults"]), *of_the_world(answers[0]["unproven"])]
        demand(not named, "a run without faults proves the whole table", named)

    def answer(self) -> Any:
        """Return the function's answer, or None if it dies or is late."""
        world = self._world
        before, begins = dict(world.oracle.settlements), world.hub.now
        call = world.cloud.call("ReconcileBooks", {})
        skew = world.cloud.process_of(call).skew
        world.hub.wait(call.answer, RUN_MS_MAX)
        answer = call.answer.value if isinstance(call.answer.value, dict) else None
        if answer and not answer["unproven"]:
            resting = {key: row for key, row in before.items() if world.oracle.settlements[key] is row}
            _is_told_what_is_ahead(resting, answer["ahead"], begins + skew, world.hub.now + skew)
            world.count("ListedAhead", len(answer["ahead"]))
        return answer

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


def _is_told_what_is_ahead(resting: dict[str, Item], told: list[str], first: int, last: int) -> None:
    """Check that a run from `first` to `last` (ms) reported the settlements listed too far ahead."""
    named = {one.partition(": ")[0] for one in told}
    for key, row in resting.items():
        ahead = REVIEW_AHEAD_MS_MAX if "review" in row else AHEAD_MS_MAX
        bounds = [timestamp(NOW + timedelta(milliseconds=at + ahead)) for at in (first, last)]
        listed, is_told = text(row, "gsi1sk") or "", f"SETTLEMENT#{key}" in named
        demand(is_told or listed <= bounds[1], "what is listed ahead is told", key, listed)
        demand(not is_told or listed > bounds[0], "nothing else is told as listed ahead", key, listed)


def of_the_world(named: list[str]) -> list[str]:
    """Return the findings, except those about intentionally unreadable rows."""
    return [one for one in named if not one.partition(": ")[0].endswith(POISON)]
