"""A circuit that cannot be read or written causes no outage of its own."""

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from settlement.adapters.kyc_client import Refused
from settlement.model.errors import KycCircuitOpen
from tests.conftest import Ledger
from tests.kyc.environments import DOWN, THRESHOLDS, Clock, Environment, circuit_row, open_it
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED

CALLS = ("get_item", "put_item", "update_item")
OUTAGES = [
    EndpointConnectionError(endpoint_url="https://dynamodb.invalid"),
    ClientError({"Error": {"Code": "ProvisionedThroughputExceededException", "Message": ""}}, "UpdateItem"),
]
outages = pytest.mark.parametrize("outage", OUTAGES, ids=lambda outage: type(outage).__name__)


def cut_off(environment: Environment, outage: Exception, *calls: str) -> None:
    environment.client.failing |= dict.fromkeys(calls or CALLS, outage)


@outages
@pytest.mark.parametrize("answer", [APPROVED, REJECTED, IN_REVIEW, Refused(400)], ids=str)
def test_an_answer_is_returned(ledger: Ledger, clock: Clock, outage: Exception, answer: Any) -> None:
    environment = Environment.of(ledger)
    cut_off(environment, outage)

    for _ in range(3):
        assert environment.ask(answer) == answer


@outages
def test_a_failure_of_the_provider_stays_its_own_and_every_call_is_let_through(
    ledger: Ledger, clock: Clock, outage: Exception
) -> None:
    environment = Environment.of(ledger)
    cut_off(environment, outage)

    for _ in range(THRESHOLDS.failures * 2):
        assert environment.ask(DOWN) is DOWN

    assert environment.calls == THRESHOLDS.failures * 2
    assert environment.announced == []


@outages
def test_an_answer_after_a_failure_is_returned_even_if_it_cannot_be_recorded(
    ledger: Ledger, clock: Clock, outage: Exception
) -> None:
    environment = Environment.of(ledger)
    environment.ask(DOWN)
    cut_off(environment, outage)

    assert environment.ask(APPROVED) == APPROVED


@outages
def test_an_answer_after_a_failure_that_could_not_be_counted_is_returned(
    ledger: Ledger, clock: Clock, outage: Exception
) -> None:
    environment = Environment.of(ledger)
    cut_off(environment, outage)
    environment.ask(DOWN)
    environment.client.failing.clear()

    assert environment.ask(APPROVED) == APPROVED

    row = circuit_row(ledger)
    assert row is None or row.keys() >= {"state", "not_needed_after"}


@outages
def test_a_circuit_that_cannot_be_opened_is_opened_with_the_next_failure(
    ledger: Ledger, clock: Clock, outage: Exception
) -> None:
    environment = Environment.of(ledger)
    for _ in range(THRESHOLDS.failures - 1):
        environment.ask(DOWN)
    cut_off(environment, outage)
    environment.ask(DOWN)
    environment.client.failing.clear()

    assert environment.ask(DOWN) is DOWN
    assert isinstance(environment.ask(APPROVED), KycCircuitOpen)
    assert len(environment.announced) == 1


@outages
def test_a_probe_that_cannot_be_claimed_is_a_refusal_of_the_circuit_and_no_other_error(
    ledger: Ledger, clock: Clock, outage: Exception
) -> None:
    environment = open_it(ledger)
    clock.seconds += THRESHOLDS.recovery_seconds
    cut_off(environment, outage, "put_item")

    assert isinstance(environment.ask(APPROVED), KycCircuitOpen)

    environment.client.failing.clear()
    assert environment.ask(APPROVED) == APPROVED


@outages
def test_a_probe_that_cannot_be_recorded_keeps_its_answer_and_the_next_one_closes_the_circuit(
    ledger: Ledger, clock: Clock, outage: Exception
) -> None:
    environment = open_it(ledger)
    clock.seconds += THRESHOLDS.recovery_seconds
    cut_off(environment, outage, "update_item")
    assert environment.ask(APPROVED) == APPROVED
    environment.client.failing.clear()
    clock.seconds += THRESHOLDS.recovery_seconds

    assert Environment.of(ledger).ask(APPROVED) == APPROVED

    row = circuit_row(ledger)
    assert row
    assert row["state"] == "CLOSED"


@outages
def test_a_failed_probe_that_cannot_be_recorded_stays_the_failure_of_the_provider(
    ledger: Ledger, clock: Clock, outage: Exception
) -> None:
    environment = open_it(ledger)
    clock.seconds += THRESHOLDS.recovery_seconds
    cut_off(environment, outage, "update_item")

    assert environment.ask(DOWN) is DOWN
