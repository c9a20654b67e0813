"""A health check can close an open circuit without payments; the circuit is then on probation."""

import pytest
from botocore.exceptions import EndpointConnectionError

from settle.local.kyc_behaviour import ERROR_STATUSES, Behaviour
from settlement.core.model.errors import KycCircuitOpen
from settlement.core.model.stage_config import StageConfig
from settlement.http.circuit import State
from settlement.http.shared_circuit import CACHE_SECONDS
from settlement.kyc import circuit as kyc_circuit
from settlement.kyc.client import Client, Endpoint
from tests.kyc.conftest import Counting
from tests.kyc.environments import DOWN, THRESHOLDS, Environment, Shared
from tests.world.provider import APPROVED

RECOVERY = THRESHOLDS.recovery_seconds


def check(environment: Environment, *, is_healthy: bool) -> int:
    asked: list[bool] = []

    def ask() -> bool:
        asked.append(is_healthy)
        return is_healthy

    kyc_circuit.check_health(environment.circuit, ask)
    return len(asked)


def test_checking_the_health_of_a_closed_circuit_costs_one_read(shared: Shared) -> None:
    environment = shared.environment()

    assert check(environment, is_healthy=True) == 0

    assert environment.client.called == ["get_item"]
    assert shared.row is None


def test_a_healthy_provider_closes_the_circuit_without_a_payment(shared: Shared) -> None:
    shared.opened()
    environment = shared.environment()
    assert check(environment, is_healthy=True) == 0  # it has just opened
    shared.wait(RECOVERY)

    assert check(environment, is_healthy=True) == 1

    assert environment.announced == [State.HALF_OPEN, State.CLOSED]
    assert shared.environment().ask(APPROVED) == APPROVED


def test_an_unhealthy_provider_keeps_the_circuit_open_but_payments_probe(shared: Shared) -> None:
    shared.opened()
    shared.wait(RECOVERY)
    environment = shared.environment()

    assert check(environment, is_healthy=False) == 1

    assert environment.announced == [State.HALF_OPEN, State.OPEN]
    assert isinstance(environment.ask(APPROVED), KycCircuitOpen)
    shared.wait(RECOVERY)
    assert environment.ask(APPROVED) == APPROVED


def test_a_healthy_provider_that_never_answers_gets_few_calls(
    shared: Shared,
) -> None:
    opener = shared.opened()
    for _ in range(5):
        shared.wait(RECOVERY)
        check(shared.environment(), is_healthy=True)
        assert opener.ask(DOWN) is DOWN or shared.state == "OPEN"
        shared.wait(CACHE_SECONDS)

    assert shared.state == "OPEN"
    assert opener.calls <= THRESHOLDS.failures + 5


def test_after_an_answer_one_failure_no_longer_reopens_the_circuit(shared: Shared) -> None:
    shared.opened()
    shared.wait(RECOVERY)
    environment = shared.environment()
    check(environment, is_healthy=True)

    environment.ask(APPROVED)
    environment.ask(DOWN)

    assert shared.state == "CLOSED"


def test_while_a_payment_probes_the_health_is_not_asked(shared: Shared) -> None:
    prober = shared.opened()
    shared.wait(RECOVERY)
    asked: list[int] = []
    prober.provider.meanwhile = lambda: asked.append(check(shared.environment(), is_healthy=True))

    prober.ask(APPROVED)

    assert asked == [0]
    assert shared.state == "CLOSED"


@pytest.mark.parametrize(("is_healthy", "after"), [(True, State.CLOSED), (False, State.OPEN)])
def test_an_order_probes_at_once_and_the_health_decides(
    shared: Shared, is_healthy: bool, after: State
) -> None:
    opener, environment = shared.opened(), shared.environment()

    assert kyc_circuit.probe_now(environment.circuit, lambda: is_healthy) is after

    assert environment.announced == [State.HALF_OPEN, after]
    shared.wait(CACHE_SECONDS)
    assert (opener.ask(APPROVED) == APPROVED) is is_healthy


def test_a_probe_by_a_person_lets_the_next_payment_through(shared: Shared) -> None:
    shared.opened()
    environment = shared.environment()
    environment.ask(APPROVED)  # it knows the open circuit

    assert kyc_circuit.probe_now(environment.circuit, None) is State.OPEN

    assert environment.ask(APPROVED) == APPROVED
    assert shared.state == "CLOSED"


def test_a_persons_probe_does_not_change_a_closed_circuit(shared: Shared) -> None:
    environment = shared.environment()

    assert kyc_circuit.probe_now(environment.circuit, lambda: True) is State.CLOSED

    assert shared.row is None


def test_an_order_does_not_end_a_running_probe(shared: Shared) -> None:
    prober = shared.opened()
    shared.wait(RECOVERY)
    states: list[State] = []
    prober.provider.meanwhile = lambda: states.append(
        kyc_circuit.probe_now(shared.environment().circuit, lambda: True)
    )

    prober.ask(APPROVED)

    assert states == [State.HALF_OPEN]
    assert shared.state == "CLOSED"


def test_a_persons_probe_reads_the_circuit_afresh(shared: Shared) -> None:
    environment = shared.environment()
    environment.ask(APPROVED)  # it knows the closed circuit
    shared.opened()

    assert kyc_circuit.probe_now(environment.circuit, lambda: True) is State.CLOSED

    assert shared.state == "CLOSED"


def test_without_dynamodb_neither_health_check_nor_order_gets_an_answer(shared: Shared) -> None:
    shared.opened()
    shared.wait(RECOVERY)
    environment = shared.environment()
    environment.cut_off(EndpointConnectionError(endpoint_url="https://dynamodb.invalid"))

    assert check(environment, is_healthy=True) == 0
    with pytest.raises(EndpointConnectionError):
        kyc_circuit.probe_now(environment.circuit, lambda: True)


@pytest.mark.parametrize(
    ("behaviour", "is_healthy"),
    [(Behaviour.APPROVE, True), (Behaviour.GARBAGE, True)]
    + [(behaviour, False) for behaviour in (*ERROR_STATUSES, Behaviour.CLOSE, Behaviour.HUGE)],
)
def test_a_provider_is_healthy_if_its_health_path_returns_200(
    simulator: Counting, config: StageConfig, behaviour: Behaviour, is_healthy: bool
) -> None:
    endpoint = Endpoint(
        url=simulator.url,
        provider="verifications",
        dataset="default",
        connect_timeout_seconds=1,
        read_timeout_seconds=1,
        health_path="/health",
    )
    simulator.state.behaviour = behaviour

    assert Client(endpoint, config).is_healthy() is is_healthy

    assert simulator.state.calls == 0
