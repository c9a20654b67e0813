"""A circuit breaker for each check, kept by each execution environment of VerifyKyc."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

FAILURES_MAX = 5
"""Consecutive failures that open a circuit."""

REST = timedelta(seconds=10)
"""How long an open circuit blocks calls. Then one more failure opens it again."""


@dataclass
class Circuits:
    _failures: dict[str, int] = field(default_factory=dict)
    _rests_until: dict[str, datetime] = field(default_factory=dict)

    def is_open(self, name: str, now: datetime) -> bool:
        return name in self._rests_until and now < self._rests_until[name]

    def note(self, name: str, now: datetime, *, failed: bool) -> None:
        self._failures[name] = self._failures.get(name, 0) + 1 if failed else 0
        if self._failures[name] >= FAILURES_MAX:
            self._rests_until[name] = now + REST
