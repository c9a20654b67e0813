"""The handlers' surroundings, replaced: what they reach for, they get from the world that runs."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest import mock

from handlers import _machines, _provider, _queues, _runtime, _secrets
from settle import decisions
from settlement import telemetry
from tests.simulation.seeded.people import SECRET
from tests.simulation.seeded.world import World
from tests.support.environment import NOW


class Current:
    """The world that runs."""

    world: World

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world, name)


@contextmanager
def set_up() -> Iterator[Current]:
    """Replace what surrounds the handlers: table, clock, provider, machines, queue, secrets, telemetry."""
    current = Current()
    shared = {os.environ["KYC_SIGNING_SECRET"]: {"current": SECRET}}
    instant = lambda: NOW + timedelta(milliseconds=current.hub.now + current.hub.process.skew)  # noqa: E731
    clock = SimpleNamespace(
        monotonic=lambda: current.hub.now / 1000, sleep=lambda seconds: current.hub.sleep(int(seconds * 1000))
    )
    names = SimpleNamespace(
        token_hex=lambda size: f"{current.chance.random.getrandbits(8 * size):0{2 * size}x}"
    )
    replaced = {
        (_runtime.store, "_client"): Through(current, "dynamodb"),
        (_runtime.store, "_pause"): lambda failed_tries: current.hub.sleep(
            current.chance.within(0, 50 << failed_tries)
        ),
        (_runtime, "now"): instant,
        (_runtime, "random"): Through(current, "chance", "random"),
        (_provider, "ask"): lambda settlement: current.people.ask(settlement),  # noqa: PLW0108 (of the world to come)
        (_provider, "review_seconds"): 600,
        (_machines, "_client"): Through(current, "step_functions"),
        (_queues, "_client"): Through(current, "people"),
        (_secrets, "read"): lambda secret_id, **_: shared[secret_id],
        (decisions, "time"): clock,
        (decisions, "secrets"): names,
        (telemetry.metrics, "add_metric"): lambda name, unit, value: current.count(name, value),
        (telemetry.metrics.provider, "flush_metrics"): lambda *_, **__: None,
        **{
            (telemetry.logger, name): lambda *_, **__: None
            for name in ("info", "warning", "error", "append_keys")
        },
    }
    with ExitStack() as stack:
        for (place, name), value in replaced.items():
            stack.enter_context(mock.patch.object(place, name, value))
        stack.enter_context(mock.patch.dict(os.environ, {"START_DEAD_LETTERS": "dead-letters"}))
        yield current


class Through:
    """Passes everything on to a part of the world that runs."""

    def __init__(self, current: Current, *path: str) -> None:
        self._current, self._path = current, path

    def __getattr__(self, name: str) -> Any:
        found: Any = self._current.world
        for part in self._path:
            found = getattr(found, part)
        return getattr(found, name)
