from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from settlement.core.model.errors import KycCircuitOpen
from settlement.kyc.client import Refused
from tests.kyc.environments import DOWN, THRESHOLDS, Shared
from tests.world.provider import APPROVED

OUTAGES = [
    EndpointConnectionError(endpoint_url="https://dynamodb.invalid"),
    ClientError({"Error": {"Code": "ProvisionedThroughputExceededException", "Message": ""}}, "UpdateItem"),
]
pytestmark = pytest.mark.parametrize("outage", OUTAGES, ids=lambda outage: type(outage).__name__)


@pytest.mark.parametrize("answer", [APPROVED, Refused(400), DOWN], ids=str)
def test_every_call_passes_with_the_providers_own_answer_or_failure(
    shared: Shared, outage: Exception, answer: Any
) -> None:
    environment = shared.environment()
    environment.cut_off(outage)

    for _ in range(THRESHOLDS.failures * 2):
        assert environment.ask(answer) == answer

    assert environment.calls == THRESHOLDS.failures * 2
    assert environment.announced == []


@pytest.mark.parametrize("counted", [True, False], ids=["counted", "not counted"])
def test_an_answer_after_a_failure_is_returned_with_either_unrecorded(
    shared: Shared, outage: Exception, counted: bool
) -> None:
    environment = shared.environment()
    for answer, cut_off in ((DOWN, not counted), (APPROVED, counted)):
        environment.client.failing.clear()
        if cut_off:
            environment.cut_off(outage)

        assert environment.ask(answer) == answer

    assert shared.row is None or shared.row.keys() >= {"state", "version"}


def test_a_circuit_that_cannot_open_opens_with_the_next_failure(shared: Shared, outage: Exception) -> None:
    environment = shared.environment()
    for _ in range(THRESHOLDS.failures - 1):
        environment.ask(DOWN)
    environment.cut_off(outage)
    environment.ask(DOWN)
    environment.client.failing.clear()

    assert environment.ask(DOWN) is DOWN
    assert isinstance(environment.ask(APPROVED), KycCircuitOpen)
    assert len(environment.announced) == 1


def test_an_unclaimable_probe_is_a_refusal_of_the_circuit(shared: Shared, outage: Exception) -> None:
    environment = shared.opened()
    shared.wait(THRESHOLDS.recovery_seconds)
    environment.cut_off(outage, "put_item")

    assert isinstance(environment.ask(APPROVED), KycCircuitOpen)

    environment.client.failing.clear()
    assert environment.ask(APPROVED) == APPROVED


@pytest.mark.parametrize("answer", [APPROVED, DOWN], ids=["healthy", "down"])
def test_an_unrecorded_probe_answers_and_the_next_closes_the_circuit(
    shared: Shared, outage: Exception, answer: Any
) -> None:
    environment = shared.opened()
    shared.wait(THRESHOLDS.recovery_seconds)
    environment.provider.meanwhile = lambda: environment.cut_off(outage)
    assert environment.ask(answer) == answer
    environment.client.failing.clear()
    environment.provider.meanwhile = lambda: None
    shared.wait(THRESHOLDS.recovery_seconds)

    assert shared.environment().ask(APPROVED) == APPROVED

    assert shared.state == "CLOSED"
