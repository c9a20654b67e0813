"""What the provider is promised: how many calls reach it while it is down, however many ask."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from aws_lambda_powertools.utilities.circuit_breaker import CircuitState

from settle.kyc_simulator import Behaviour
from settlement import breaker
from settlement.terms import Terms
from settlement.verdict import Verdict
from tests.conftest import Ledger
from tests.kyc.conftest import Counting, url
from tests.kyc.environments import Environment, outcome
from tests.kyc.raw import WAIT_SECONDS_MAX, client

THRESHOLDS = breaker.Thresholds(failures=5, within_seconds=60, recovery_seconds=3)
REFUSALS_EACH = 20
PROBES = 1


class Asking:
    """A function environment's own client, which asks the simulated provider."""

    def __init__(self, address: str, terms: Terms) -> None:
        self._client = client(address, terms, read_timeout_seconds=WAIT_SECONDS_MAX)

    def ask(self, settlement: object) -> object:
        return self._client.ask(settlement, "secret")  # type: ignore[arg-type]


@pytest.mark.parametrize("ledger", ["dynamodb-local"], indirect=True)
@pytest.mark.parametrize("count", [1, 16])
def test_a_dead_provider_is_called_no_more_often_than_promised_and_all_flows_when_it_is_back(
    ledger: Ledger, terms: Terms, simulator: Counting, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "CACHE_SECONDS", 1)
    simulator.state.behaviour = Behaviour.ERROR
    environments = [Environment.of(ledger, Asking(url(simulator), terms), THRESHOLDS) for _ in range(count)]

    def announced(state: CircuitState) -> int:
        return sum(environment.announced.count(state) for environment in environments)

    def hammer(environment: Environment) -> None:
        give_up_at = time.monotonic() + WAIT_SECONDS_MAX
        while len(environment.refused) < REFUSALS_EACH or announced(CircuitState.HALF_OPEN) < PROBES:
            assert time.monotonic() < give_up_at
            outcome(environment.start())

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(hammer, environments))

    probes = announced(CircuitState.HALF_OPEN)
    assert probes >= PROBES
    assert THRESHOLDS.failures + PROBES <= simulator.state.calls
    assert simulator.state.calls <= THRESHOLDS.failures + count - 1 + probes
    assert announced(CircuitState.OPEN) == 1 + probes

    simulator.state.behaviour = Behaviour.APPROVE
    give_up_at = time.monotonic() + WAIT_SECONDS_MAX
    for environment in environments:
        while not isinstance(outcome(environment.start()), Verdict):
            assert time.monotonic() < give_up_at
    assert announced(CircuitState.CLOSED) == 1
