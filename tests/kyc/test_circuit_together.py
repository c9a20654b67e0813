"""Sixteen environments at once: their failures, their probes, and the announcements."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aws_lambda_powertools.utilities.circuit_breaker import CircuitState

from settlement.adapters import kyc_circuit
from settlement.model.settlement import Settlement
from tests.conftest import Ledger
from tests.kyc.environments import DOWN, Clock, Environment, circuit_row, outcome
from tests.support.kyc import APPROVED

ENVIRONMENTS = 16
THRESHOLDS = kyc_circuit.Thresholds(failures=5, within_seconds=60, recovery_seconds=30)
WAIT_SECONDS_MAX = 30

# moto is not safe for threads; only AWS's own engine decides between rivals as DynamoDB does.
pytestmark = pytest.mark.parametrize("ledger", ["dynamodb-local"], indirect=True)


@dataclass
class Together:
    """One provider for all: counts its calls, and answers once `allowed` is set."""

    answer: Any = DOWN
    asked: list[str] = field(default_factory=list)
    allowed: threading.Event = field(default_factory=threading.Event)

    def ask(self, settlement: Settlement) -> Any:
        self.asked.append(settlement.key)
        assert self.allowed.wait(WAIT_SECONDS_MAX)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def provider() -> Iterator[Together]:
    provider = Together()
    provider.allowed.set()
    yield provider
    provider.allowed.set()


@pytest.fixture
def environments(ledger: Ledger, clock: Clock, provider: Together) -> list[Environment]:
    return [Environment.of(ledger, provider, THRESHOLDS) for _ in range(ENVIRONMENTS)]


def all_at_once(environments: list[Environment]) -> list[Any]:
    barrier = threading.Barrier(len(environments), timeout=WAIT_SECONDS_MAX)
    return [outcome(future) for future in [environment.start(barrier) for environment in environments]]


def announced(environments: list[Environment]) -> list[CircuitState]:
    return [state for environment in environments for state in environment.announced]


def refused(environments: list[Environment]) -> int:
    return sum(len(environment.refused) for environment in environments)


def test_each_environment_has_one_failure_at_most_beyond_the_threshold(
    environments: list[Environment], provider: Together
) -> None:
    for _ in range(5):
        all_at_once(environments)

    assert THRESHOLDS.failures <= len(provider.asked) <= THRESHOLDS.failures + ENVIRONMENTS - 1


def test_one_opens_the_circuit_and_announces_it_though_all_fail_at_once(
    ledger: Ledger, environments: list[Environment], provider: Together
) -> None:
    provider.allowed.clear()
    threading.Thread(target=lambda: _when(lambda: len(provider.asked) == ENVIRONMENTS, provider)).start()

    assert all_at_once(environments) == [DOWN] * ENVIRONMENTS

    assert len(provider.asked) == ENVIRONMENTS
    assert announced(environments) == [CircuitState.OPEN]
    row = circuit_row(ledger)
    assert row
    assert row["state"] == "OPEN"


def test_failures_that_come_together_are_all_counted(ledger: Ledger, environments: list[Environment]) -> None:
    all_at_once(environments[: THRESHOLDS.failures - 1])

    row = circuit_row(ledger)
    assert row
    assert (row["state"], row["failure_count"]) == ("CLOSED", THRESHOLDS.failures - 1)


@pytest.mark.parametrize("answer", [APPROVED, DOWN], ids=["healthy", "down"])
def test_one_probe_is_let_through_and_each_change_is_announced_once(
    environments: list[Environment], provider: Together, clock: Clock, answer: Any
) -> None:
    all_at_once(environments)
    assert announced(environments) == [CircuitState.OPEN]
    for environment in environments:
        environment.announced.clear()
        environment.measured.clear()
    provider.asked.clear()
    provider.answer = answer
    provider.allowed.clear()
    clock.seconds += THRESHOLDS.recovery_seconds
    others = ENVIRONMENTS - 1
    threading.Thread(target=lambda: _when(lambda: refused(environments) == others, provider)).start()

    outcomes = all_at_once(environments)

    assert len(provider.asked) == 1
    assert refused(environments) == others
    assert outcomes.count(answer) == 1
    after = CircuitState.CLOSED if answer is APPROVED else CircuitState.OPEN
    assert announced(environments) == [CircuitState.HALF_OPEN, after]


def test_every_call_is_let_through_once_the_probe_has_closed_the_circuit(
    environments: list[Environment], provider: Together, clock: Clock
) -> None:
    all_at_once(environments)
    provider.answer = APPROVED
    clock.seconds += THRESHOLDS.recovery_seconds
    assert outcome(environments[0].start()) == APPROVED

    clock.seconds += kyc_circuit.CACHE_SECONDS

    assert all_at_once(environments) == [APPROVED] * ENVIRONMENTS


def test_of_probes_that_died_one_successor_is_let_through(
    environments: list[Environment], provider: Together, clock: Clock
) -> None:
    all_at_once(environments)
    clock.seconds += THRESHOLDS.recovery_seconds
    provider.answer = ZeroDivisionError()
    assert outcome(environments[0].start()) is provider.answer
    provider.asked.clear()
    provider.answer = APPROVED
    provider.allowed.clear()
    clock.seconds += THRESHOLDS.recovery_seconds
    before, others = refused(environments), ENVIRONMENTS - 2
    waiting = environments[1:]
    threading.Thread(target=lambda: _when(lambda: refused(environments) == before + others, provider)).start()

    outcomes = all_at_once(waiting)

    assert len(provider.asked) == 1
    assert outcomes.count(APPROVED) == 1


def _when(condition: Any, provider: Together) -> None:
    """Let the provider answer once the condition holds; if it never does, the test's own checks fail."""
    fails_at = time.monotonic() + WAIT_SECONDS_MAX / 3
    while not condition() and time.monotonic() < fails_at:
        threading.Event().wait(0.01)
    provider.allowed.set()
