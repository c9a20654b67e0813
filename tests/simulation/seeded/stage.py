import hashlib
import inspect
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest import mock

from handlers import _dependencies, rooms
from handlers.checks import _checks
from handlers.core import _payee, _workers
from handlers.kyc import _provider as _kyc
from settle import order
from settle.settlements import follow
from settlement.aws import event_bus as _event_bus
from settlement.aws import functions as _functions
from settlement.aws import queues as _queues
from settlement.aws import step_functions as _step_functions
from settlement.checks import demanded, of_stage, together
from settlement.checks.circuit import Circuits
from settlement.core import telemetry
from settlement.core.ledger import keys
from settlement.http import shared_circuit
from settlement.journal import bucket as _journal
from settlement.kyc import circuit_events
from settlement.kyc import shared_secrets as _secrets
from settlement.orders import approval
from settlement.paging import topics as _topics
from settlement.proof import pages, second_look, table_scan
from tests.simulation.seeded.facts import Violated
from tests.simulation.seeded.people import SECRET
from tests.simulation.seeded.persons import VALID_FOR
from tests.simulation.seeded.rules import REVIEW_SECONDS
from tests.simulation.seeded.world import World
from tests.world.environment import NOW
from tests.world.functions import HANDLERS

ENTRY_SHARDS = 2
"""Entry partitions per merchant: few, so entries share them."""

_OF_A_WORLD = (
    (_dependencies.store, "client"),
    (_dependencies.store, "_adds"),
    (_dependencies, "now"),
    (_dependencies, "random"),
    (_dependencies, "nonce"),
    (_dependencies, "config"),
    (_step_functions, "_client"),
    (_queues, "_client"),
    (_functions, "_client"),
    (_payee, "_remembered"),
    (_kyc, "_circuit"),
    (_kyc, "_health_check"),
    (_kyc, "_guarded_ask"),
    (circuit_events, "_client"),
    (_event_bus, "_client"),
    (_topics, "_client"),
    (_checks, "_circuits"),
)


class Current:
    """The running world. Setting it installs its parts in the handlers."""

    _world: World

    @property
    def world(self) -> World:
        return self._world

    @world.setter
    def world(self, world: World) -> None:
        self._world, hub = world, world.hub

        def now() -> datetime:
            process = hub.process
            told = hub.now + process.skew
            process.clock = max(process.clock, told)
            return NOW + timedelta(milliseconds=told)

        services = (world.step_functions, world.people, world.functions)
        chance = world.chance
        reached = (
            world.dynamodb,
            rooms.adds(world.config),
            now,
            chance.random,
            chance.nonce,
            world.config,
            *services,
            world.remembered,
            world.circuit,
            world.circuit.health_check,
            world.circuit.ask,
            world.circuit.events,
            world.circuit.events,
            world.pager,
            Circuits(),
        )
        for (place, name), part in zip(_OF_A_WORLD, reached, strict=True):
            setattr(place, name, part)


class AtOnce:
    """An executor that runs tasks at once, since the hub could not interleave threads."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def __enter__(self) -> "AtOnce":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(function(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done


@contextmanager
def set_up() -> Iterator[Current]:
    current = Current()
    shared = {
        os.environ["KYC_SIGNING_SECRET"]: {"current": SECRET},
        _kyc._secret_id: {"api_key": "simulated"},
    }
    clock = SimpleNamespace(
        monotonic=lambda: current.world.hub.now / 1000,
        sleep=lambda seconds: current.world.hub.sleep(int(seconds * 1000)),
    )

    def urandom(size: int) -> bytes:
        """Return bytes that never repeat, although later lives restart their randomness."""
        world = current.world
        told = f"{world.hub.now} {world.circuit.random.randbytes(size).hex()}"
        return hashlib.sha256(told.encode()).digest()[:size]

    replaced: dict[tuple[Any, str], Any] = {
        **dict.fromkeys(_OF_A_WORLD),
        (_dependencies.store, "_pause"): lambda failed_tries: current.world.hub.sleep(
            current.world.chance.within(0, 50 << failed_tries)
        ),
        (keys, "ENTRY_SHARDS"): ENTRY_SHARDS,
        (_journal, "_client"): None,
        (_workers, "each"): lambda function, items: [function(item) for item in items],
        (_workers, "pause"): clock.sleep,
        (_kyc._client, "ask"): lambda *question: current.world.people.exchange(*question),  # noqa: PLW0108 (of a later world)
        (_kyc._client, "is_healthy"): lambda: current.world.people.is_healthy(),  # noqa: PLW0108
        (shared_circuit, "os"): SimpleNamespace(urandom=urandom),
        (_kyc, "review_seconds"): REVIEW_SECONDS,
        (approval, "VALID_FOR"): VALID_FOR,
        (_secrets, "read"): lambda secret_id, **_: shared[secret_id],
        (of_stage, "installed"): lambda: current.world.checks.installed,
        (of_stage, "declared"): lambda: current.world.checks.declared,
        (demanded, "names"): lambda: list(current.world.checks.installed),
        (of_stage, "signing_secret"): lambda name: os.environ["KYC_SIGNING_SECRET"],
        (together, "ask"): lambda *asked: current.world.checks.ask(*asked),  # noqa: PLW0108
        (_payee, "time"): clock,
        (follow, "time"): clock,
        (order, "time"): clock,
        (time, "sleep"): _sleep_for_real,
        (second_look, "time"): clock,
        (table_scan, "datetime"): SimpleNamespace(now=lambda _: _dependencies.now()),
        (pages, "_plain_rows"): lambda client, operation: nullcontext(),
        (pages, "ThreadPoolExecutor"): AtOnce,
        (pages, "wait_for_capacity"): lambda tries: current.world.hub.sleep(100 << tries),
        (telemetry, "called"): lambda *_: None,
        (telemetry.metrics, "add_metric"): lambda name, unit, value: current.world.count(name, value),
        (telemetry.logger, "get_current_keys"): dict,
        (telemetry.metrics.provider, "flush_metrics"): lambda *_, **__: None,
        **{
            (telemetry.logger, name): lambda *_, **__: None
            for name in ("warning", "error", "append_keys", "structure_logs")
        },
        (telemetry.logger, "info"): lambda message, **told: current.world.stranger.informed(message, told),
    }
    with ExitStack() as stack:
        for (place, name), value in replaced.items():
            stack.enter_context(mock.patch.object(place, name, value))
        stack.enter_context(mock.patch.dict(HANDLERS, _without_powertools()))
        variables = {"START_DEAD_LETTERS": "dead-letters", "CHECKS": "[]"}
        stack.enter_context(mock.patch.dict(os.environ, variables))
        yield current


def _sleep_for_real(seconds: float) -> None:
    raise Violated(f"a wait of {seconds} s is real: set_up replaces its clock")


def _without_powertools() -> dict[str, Callable[[Any, Any], Any]]:
    return {name: plain(handler) for name, handler in HANDLERS.items()}


def plain(handler: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    found: Callable[[Any, Any], Any] = inspect.unwrap(
        handler, stop=lambda one: one.__code__.co_filename == telemetry.__file__
    )
    return found
