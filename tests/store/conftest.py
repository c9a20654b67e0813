import pytest

from settlement.core import telemetry
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from tests.world.ledger import Ledger
from tests.world.saga import Saga


@pytest.fixture(params=["memory", "server"])
def engine(request: pytest.FixtureRequest) -> str:
    """Run each test on both engines, unless it names one."""
    return str(request.param)


@pytest.fixture
def saga(ledger: Ledger, settlement: Settlement, config: StageConfig) -> Saga:
    return Saga(ledger, settlement, config)


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(telemetry, "count", names.append)
    return names
