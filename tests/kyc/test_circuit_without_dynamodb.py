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
def test_without_dynamodb_every_call_passes_to_the_provider(
    shared: Shared, outage: Exception, answer: Any
) -> None:
    environment = shared.environment()
    environment.cut_off(outage)

    for _ in range(THRESHOLDS.failures * 2):
        assert environment.ask(answer) == answer

    assert environment.calls == THRESHOLDS.failures * 2
    assert environment.announced == []


@pytest.mark.parametrize("counted", [True, False], ids=["counted", "not counted"])
def test_an_answer_is_returned_although_counting_fails(
    shared: Shared, outage: Exception, counted: bool
) -> None:
    environment = shared.environment()
    for answer, cut_off in ((DOWN, not counted), (APPROVED, counted)):
        environment.client.failing.clear()
        if cut_off:
            environment.cut_off(outage)

        assert environment.ask(answer) == answer

    assert shared.row is None or shared.row.keys() >= {"state", "version"}


def test_an_opening_that_could_not_be_written_is_repeated_later(shared: Shared, outage: Exception) -> None:
    environment = shared.environment()
    for _ in range(THRESHOLDS.failures - 1):
        environment.ask(DOWN)
    environment.cut_off(outage)
    environment.ask(DOWN)
    environment.client.failing.clear()

    assert environment.ask(DOWN) is DOWN
    assert isinstance(environment.ask(APPROVED), KycCircuitOpen)
    assert len(environment.announced) == 1


def test_without_a_written_claim_no_payment_probes(shared: Shared, outage: Exception) -> None:
    environment = shared.opened()
    shared.wait(THRESHOLDS.recovery_seconds)
    environment.cut_off(outage, "put_item")

    assert isinstance(environment.ask(APPROVED), KycCircuitOpen)

    environment.client.failing.clear()
    assert environment.ask(APPROVED) == APPROVED


@pytest.mark.parametrize("answer", [APPROVED, DOWN], ids=["healthy", "down"])
def test_a_probe_whose_result_is_not_recorded_is_repeated_later(
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
