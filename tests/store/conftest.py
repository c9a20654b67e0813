"""Fixtures of the store's tests."""

from dataclasses import replace

import pytest

from settlement.adapters import telemetry
from settlement.adapters.dynamodb import Store
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from tests.world.ledger import Ledger
from tests.world.saga import Saga


@pytest.fixture(params=["memory", "server"])
def engine(request: pytest.FixtureRequest) -> str:
    """Both engines, unless a test names one."""
    return str(request.param)


@pytest.fixture
def ledger(ledger: Ledger) -> Ledger:
    """A fresh table with the rows as the ledger builds them: `test_signatures.py` asks for the rest."""
    unsigned = Store(ledger.client, ledger.table_name, pause=lambda failed_tries: None)
    return replace(ledger, store=unsigned)


@pytest.fixture
def saga(ledger: Ledger, settlement: Settlement, config: StageConfig) -> Saga:
    return Saga(ledger, settlement, config)


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the metrics that the store counts, in order; none of them reaches another test."""
    names: list[str] = []
    monkeypatch.setattr(telemetry, "count", names.append)
    return names
