"""The relay of a world's events: each record of a settlement's row, late, twice, and out of step.

`policy/events.py` makes an event of a record. What a reader does with it is played here, when the world's
history is over: it keeps one of each identity, and those of one settlement in the order of their numbers.
"""

from random import Random
from typing import Any

from settlement.adapters.wire import from_wire
from settlement.model.stage_config import StageConfig
from settlement.model.state import MalformedRow
from settlement.policy.events import Event, event
from tests.simulation.seeded.facts import POISON, demand, number, text
from tests.world.expressions import Item
from tests.world.memory_dynamodb import Changes

BATCH_MAX = 10
"""The most events that EventBridge takes at once."""


class Relay:
    """The records of settlements' rows, by settlement: a stream keeps the order of one row's alone."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"relay {seed}")
        self._records: dict[str, list[tuple[Item | None, Item]]] = {}
        self._sent: dict[str, list[Event]] = {}

    def committed(self, changes: Changes, config: StageConfig) -> None:
        """Note the records of a commit, each of which must be an event or none. Raises Violated."""
        for old, new in changes:
            row = new or old
            if row and row["sk"]["S"] == "SETTLEMENT" and POISON not in row["pk"]["S"] and old != new:
                demand(new, "no settlement's row is deleted", row["pk"]["S"])
                assert new
                _event(old, new, config)
                self._records.setdefault(row["pk"]["S"], []).append((old, new))

    def play(self, table: dict[tuple[str, str], Item], config: StageConfig) -> None:
        """Relay the records with faults, and check what a reader has in the end. Raises Violated."""
        left = {pk: list(records) for pk, records in self._records.items()}
        while left:
            pk = self._random.choice(sorted(left))
            batch = left[pk][: self._random.randint(1, BATCH_MAX)]
            if self._relay(batch, config):
                left[pk] = left[pk][len(batch) :]
            if not left[pk]:
                del left[pk]
        for (pk, sk), row in table.items():
            if pk in self._records and sk == "SETTLEMENT":
                self._check(row)

    def _relay(self, batch: list[tuple[Item | None, Item]], config: StageConfig) -> bool:
        """Send the events of a batch; return whether the stream goes on, and does not deliver it again."""
        for old, new in batch:
            if self._random.random() < 0.1:
                return False  # killed before it was sent
            found = _event(old, new, config)
            if found:
                self._sent.setdefault(found.key, []).append(found)
            if self._random.random() < 0.1:
                return False  # killed after it was sent
        return self._random.random() > 0.1  # or delivered again, though all was sent

    def _check(self, row: Item) -> None:
        """Check what a reader knows of a settlement."""
        key = row["pk"]["S"].partition("#")[2]
        by_number: dict[int, Event] = {}
        first_seen: list[int] = []
        for one in self._sent.get(key, ()):
            if one.sequence not in by_number:
                first_seen.append(one.sequence)
            known = by_number.setdefault(one.sequence, one)
            demand(known == one, "an event that is sent again is the same", one.id)
            demand(
                one.id == f"{key}:{one.sequence}", "an event's identity is its settlement's and its number"
            )
        first, end = number(self._records[row["pk"]["S"]][0][0], "sequence") + 1, number(row, "sequence") + 1
        dense = [*range(first, end)]
        demand(first_seen == dense, "a settlement's events are dense and in order", key, first_seen)
        if not dense:  # a life that begins in the middle of another one
            return
        last = by_number[end - 1]
        shown: dict[str, Any] = {name: text(row, name) for name in ("status", "finished_at", "claimed_at")}
        demand({name: last.data[name] for name in shown} == shown, "the last event is as the row", key, shown)
        steps = [step for step in ("hold", "verify", "release", "fee") if f"{step}_at" in row]
        undone = sorted(step for step in ("hold", "release", "fee") if f"{step}_reversed_at" in row)
        told = (last.data["steps"], last.data["reversed"])
        demand(told == (steps, undone), "the last event has the steps of the row", key, told)
        failure = (
            {name: value["S"] for name, value in row["failure"]["M"].items()} if "failure" in row else None
        )
        demand(last.data["failure"] == failure, "the last event has the failure of the row", key)


def _event(old: Item | None, new: Item, config: StageConfig) -> Event | None:
    try:
        return event(from_wire(old) if old else None, from_wire(new), config)
    except MalformedRow as wrong:
        demand(False, "each change of a settlement is an event or none", wrong)
        raise
