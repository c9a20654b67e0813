"""Fixtures of the simulations."""

import json
import os
from collections.abc import Callable, Iterator

import pytest

from handlers import _dependencies, _kyc, _secrets, _step_functions
from settlement.adapters import telemetry
from tests.conftest import Ledger, make_ledger
from tests.simulation.outside import SECRET, Outside, StepFunctions, Watch
from tests.simulation.world import World


@pytest.fixture(params=["memory"])
def ledger(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """The table of the functions, in memory; `tests/store` proves that it behaves as DynamoDB does."""
    yield from make_ledger(request)


@pytest.fixture
def world(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The machines over the table of the test, without accounts. Each call advances the clock.

    At the end of each test the books must be right.
    """
    world = World(ledger)
    monkeypatch.setattr(_kyc, "ask", world.provider.ask)
    monkeypatch.setattr(_dependencies, "store", ledger.store)
    monkeypatch.setattr(_dependencies, "now", lambda: world.now)
    telemetry.metrics.clear_metrics()
    yield world
    world.assert_conserved()


@pytest.fixture
def outside(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outside]:
    """The provider's webhook and recovery, acting on the world under watch."""
    outside = Outside(world, StepFunctions(world), Watch(world))
    monkeypatch.setattr(_step_functions, "_client", outside.machines)
    shared = {os.environ["KYC_SIGNING_SECRET"]: {"current": SECRET}}
    monkeypatch.setattr(_secrets, "read", lambda secret_id, **_: shared[secret_id])
    yield outside
    outside.watch.look()


@pytest.fixture
def fenced(capsys: pytest.CaptureFixture[str]) -> Callable[[], int]:
    """A function that returns how often StepFenced was counted since its last call."""

    def read() -> int:
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return sum(int(sum(line.get("StepFenced", [0]))) for line in lines if "_aws" in line)

    return read
