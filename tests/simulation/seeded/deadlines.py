"""Checks that DeadlineExceeded is raised only after a deadline on the row has passed."""

from tests.simulation.seeded.facts import demand, text
from tests.simulation.seeded.rules import Asking
from tests.world.memory_dynamodb import Changes


class Deadlines:
    """Each settlement's deadlines with their start (ms), and the expired settlements."""

    def __init__(self) -> None:
        self._had: dict[str, list[tuple[int, str]]] = {}
        self._expired: set[str] = set()

    def copy(self) -> "Deadlines":
        other = Deadlines()
        other._had = {key: list(had) for key, had in self._had.items()}
        other._expired = self._expired.copy()
        return other

    def committed(self, changes: Changes, asking: Asking) -> None:
        for _, new in changes:
            if new and new["sk"]["S"] == "SETTLEMENT" and (deadline := text(new, "deadline_at")):
                key = new["pk"]["S"].partition("#")[2]
                had = self._had.setdefault(key, [])
                if not had or had[-1][1] != deadline:
                    had.append((asking.now, deadline))
                if "expired_at" in new:
                    self._expired.add(key)

    def refused(self, key: str, error: str, since: int, clock: str) -> None:
        """Check a refusal; `since` is the call's start, `clock` its latest time."""
        if error != "DeadlineExceeded":
            return
        had = self._had.get(key, [])
        at_first = [deadline for at, deadline in had if at <= since][-1:]
        known = [*at_first, *(deadline for at, deadline in had if at > since)]
        is_late = key in self._expired or any(deadline <= clock for deadline in known)
        demand(is_late, "what is refused as late is late by its row", key, known, clock)
