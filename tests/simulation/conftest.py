"""Fixtures of the simulations."""

import json
import os
from collections.abc import Callable, Iterator

import pytest

from handlers import _machines, _provider, _runtime, _secrets
from settlement import telemetry
from tests.conftest import Ledger, make_ledger
from tests.simulation.outside import SECRET, Outside, StepFunctions, Watch
from tests.simulation.world import World


@pytest.fixture(params=["memory"])
def ledger(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """What the functions write to: the model, of which `tests/store` proves that it does as DynamoDB does."""
    yield from make_ledger(request)


@pytest.fixture
def world(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The machines over the table of the test, with nobody in it yet. The clock goes on with each call.

    Whatever the test did, the books must be right in the end.
    """
    world = World(ledger)
    monkeypatch.setattr(_provider, "ask", world.provider.ask)
    monkeypatch.setattr(_runtime, "store", ledger.store)
    monkeypatch.setattr(_runtime, "now", lambda: world.now)
    telemetry.metrics.clear_metrics()
    yield world
    world.assert_conserved()


@pytest.fixture
def outside(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outside]:
    """The provider's webhook and recovery, acting on the world under watch."""
    outside = Outside(world, StepFunctions(world), Watch(world))
    monkeypatch.setattr(_machines, "_client", outside.machines)
    shared = {os.environ["KYC_SIGNING_SECRET"]: {"current": SECRET}}
    monkeypatch.setattr(_secrets, "read", lambda secret_id, **_: shared[secret_id])
    yield outside
    outside.watch.look()


@pytest.fixture
def fenced(capsys: pytest.CaptureFixture[str]) -> Callable[[], int]:
    """How often the functions counted the metric StepFenced since this was last asked."""

    def read() -> int:
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return sum(int(sum(line.get("StepFenced", [0]))) for line in lines if "_aws" in line)

    return read
