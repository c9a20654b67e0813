"""The promise to the provider: the most calls that reach it while it is down."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from aws_lambda_powertools.utilities.circuit_breaker import CircuitState

from settle.local.kyc_behaviour import Behaviour
from settlement.adapters import kyc_circuit
from settlement.model.stage_config import StageConfig
from settlement.model.verdict import Verdict
from tests.conftest import Ledger
from tests.kyc.conftest import Counting, url
from tests.kyc.environments import Environment, outcome
from tests.kyc.raw import WAIT_SECONDS_MAX, client

THRESHOLDS = kyc_circuit.Thresholds(failures=5, within_seconds=60, recovery_seconds=3)
REFUSALS_EACH = 20
PROBES = 1


class Asking:
    """A function environment's own client, which asks the simulated provider."""

    def __init__(self, address: str, config: StageConfig) -> None:
        self._client = client(address, config, read_timeout_seconds=WAIT_SECONDS_MAX)

    def ask(self, settlement: object) -> object:
        return self._client.ask(settlement, "secret")  # type: ignore[arg-type]


@pytest.mark.parametrize("ledger", ["dynamodb-local"], indirect=True)
@pytest.mark.parametrize("count", [1, 16])
def test_a_dead_provider_is_called_no_more_often_than_promised_and_every_call_once_it_is_back(
    ledger: Ledger, config: StageConfig, simulator: Counting, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kyc_circuit, "CACHE_SECONDS", 1)
    simulator.state.behaviour = Behaviour.ERROR
    environments = [Environment.of(ledger, Asking(url(simulator), config), THRESHOLDS) for _ in range(count)]

    def announced(state: CircuitState) -> int:
        return sum(environment.announced.count(state) for environment in environments)

    def hammer(environment: Environment) -> None:
        fails_at = time.monotonic() + WAIT_SECONDS_MAX
        while len(environment.refused) < REFUSALS_EACH or announced(CircuitState.HALF_OPEN) < PROBES:
            assert time.monotonic() < fails_at
            outcome(environment.start())

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(hammer, environments))

    probes = announced(CircuitState.HALF_OPEN)
    assert probes >= PROBES
    assert THRESHOLDS.failures + PROBES <= simulator.state.calls
    assert simulator.state.calls <= THRESHOLDS.failures + count - 1 + probes
    assert announced(CircuitState.OPEN) == 1 + probes

    simulator.state.behaviour = Behaviour.APPROVE
    fails_at = time.monotonic() + WAIT_SECONDS_MAX
    for environment in environments:
        while not isinstance(outcome(environment.start()), Verdict):
            assert time.monotonic() < fails_at
    assert announced(CircuitState.CLOSED) == 1
