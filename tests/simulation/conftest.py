from collections.abc import Iterator

import pytest

from handlers import _dependencies
from handlers.core import _payee, _workers
from handlers.kyc import _provider as _kyc
from settlement.aws import functions as _functions
from settlement.aws import step_functions as _step_functions
from settlement.core import telemetry
from settlement.kyc import shared_secrets as _secrets
from tests.world.ledger import Ledger
from tests.world.services import SECRET
from tests.world.world import World


@pytest.fixture
def world(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The machines over the test's table; each call advances the clock. The books must balance at the end."""
    world = World(ledger)
    monkeypatch.setattr(_kyc, "ask", world.provider.ask)
    monkeypatch.setattr(_dependencies, "store", ledger.store)
    monkeypatch.setattr(_dependencies, "now", lambda: world.now)
    monkeypatch.setattr(_payee, "_remembered", {})
    monkeypatch.setattr(_workers, "pause", lambda seconds: None)
    monkeypatch.setattr(_step_functions, "_client", world.step_functions)
    monkeypatch.setattr(_functions, "_client", world.functions)
    monkeypatch.setattr(_secrets, "read", lambda secret_id, **_: {"current": SECRET})
    telemetry.metrics.clear_metrics()
    yield world
    world.assert_conserved()
