"""The facts of a stage's template that decide on its price and its limits."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks import idle
from infra.config import STAGES, Settings
from tests.infra.stack import properties, template

_MINUTES = {"minute": 1, "hour": 60, "day": 1_440}
_EVERY = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage's settings, and facts of its template.

    `memory_mb` is by function. `by_month` counts monthly prices by their names. `runs_a_minute` is of all
    schedules. `queue_concurrency` has the maximum concurrent calls of each queue.
    """

    settings: Settings
    memory_mb: Mapping[str, int]
    by_month: Mapping[str, int]
    runs_a_minute: float
    queue_concurrency: tuple[int, ...]


def read(name: str) -> Stage:
    """Return the facts of one of the project's stages."""
    schedules = properties(name, "Scheduler::Schedule").values()
    queues = [
        one for one in properties(name, "Lambda::EventSourceMapping").values() if "ScalingConfig" in one
    ]
    return Stage(
        settings=STAGES[name],
        memory_mb={one: each["MemorySize"] for one, each in properties(name, "Lambda::Function").items()},
        by_month=idle.counts(template(name).values()),
        runs_a_minute=sum(_runs_a_minute(one["ScheduleExpression"]) for one in schedules),
        queue_concurrency=tuple(one["ScalingConfig"]["MaximumConcurrency"] for one in queues),
    )


def _runs_a_minute(expression: str) -> float:
    every = _EVERY.fullmatch(expression)
    assert every, expression
    return 1 / (int(every[1]) * _MINUTES[every[2]])
