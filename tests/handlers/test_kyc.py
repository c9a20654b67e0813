"""The stage's provider: keys rotate without a deployment, and every change of the circuit is reported."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from handlers import _kyc
from settlement.adapters import telemetry
from settlement.model.errors import KycCircuitOpen, KycRequestRefused, KycUnavailable, SettlementError
from settlement.model.settlement import Settlement
from tests.conftest import Ledger, make_ledger
from tests.handlers.conftest import Counted
from tests.handlers.provider_stage import DEAD, FAILURES, YES, Stage, stage
from tests.handlers.stand_ins import API_KEY, NEW_API_KEY, Secrets, throttled, unanswered

OLD, NEW = {"api_key": API_KEY}, {"api_key": NEW_API_KEY}
CREDENTIALS = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:credentials-AbCdEf"


@pytest.fixture(params=["moto", "dynamodb-local"])
def ledger(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """The table on the engines, as the circuit writes expressions of its own."""
    yield from make_ledger(request)


@pytest.fixture
def kyc(ledger: Ledger, secrets: Secrets, monkeypatch: pytest.MonkeyPatch) -> Stage:
    telemetry.metrics.clear_metrics()
    secrets.content = OLD
    return stage(ledger, monkeypatch)


def refused(kyc: Stage, settlement: Settlement, error: type[SettlementError], message: str) -> None:
    with pytest.raises(error) as raised:
        kyc.ask(settlement)
    assert message in str(raised.value)
    assert "canary" not in str(raised.value)


def test_the_key_is_read_once_for_many_questions(
    kyc: Stage, settlement: Settlement, secrets: Secrets
) -> None:
    for _ in range(3):
        assert kyc.ask(settlement).reference == "ver_1"

    assert kyc.sent == [API_KEY] * 3
    assert secrets.read == [CREDENTIALS]


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_the_provider_no_longer_accepts_is_read_again_once(
    kyc: Stage, settlement: Settlement, secrets: Secrets, status: int
) -> None:
    kyc.ask(settlement)
    secrets.content = NEW
    kyc.answers = [(status, b""), YES]

    refused(kyc, settlement, KycUnavailable, "the API key has just been renewed")
    assert kyc.ask(settlement).decision == "APPROVED"

    assert kyc.sent == [API_KEY, API_KEY, NEW_API_KEY]
    assert len(secrets.read) == 2
    assert (kyc.circuit(), kyc.events) == ({}, [])


@pytest.mark.parametrize("status", [401, 403])
def test_the_provider_is_not_asked_again_with_the_key_that_it_refused(
    kyc: Stage, settlement: Settlement, secrets: Secrets, status: int
) -> None:
    kyc.answers = [(status, b"canary-answer")]

    refused(kyc, settlement, KycRequestRefused, f"refuses the request with status {status}")

    assert kyc.sent == [API_KEY]
    assert len(secrets.read) == 2
    assert kyc.circuit() == {}


def test_a_new_key_that_is_refused_too_is_final(kyc: Stage, settlement: Settlement, secrets: Secrets) -> None:
    kyc.ask(settlement)
    secrets.content = NEW
    kyc.answers = [(401, b"")]

    refused(kyc, settlement, KycUnavailable, "the API key has just been renewed")
    refused(kyc, settlement, KycRequestRefused, "status 401")

    assert kyc.sent == [API_KEY, API_KEY, NEW_API_KEY]
    assert len(secrets.read) == 3


def test_a_refusal_of_another_kind_does_not_read_the_key_again(
    kyc: Stage, settlement: Settlement, secrets: Secrets
) -> None:
    kyc.answers = [(422, b"")]

    refused(kyc, settlement, KycRequestRefused, "status 422")

    assert (len(kyc.sent), len(secrets.read)) == (1, 1)
    assert (kyc.circuit(), kyc.events) == ({}, [])


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(
    "content",
    [
        throttled("GetSecretValue"),
        unanswered(),
        "canary, and no JSON",
        "[]",
        "null",
        {},
        {"api_key": None},
        {"api_key": 7},
        {"api_key": "canary\r\nX-Evil: 1"},
        {"api_key": "canary-\u00e9"},
        {"api_key": ""},
    ],
)
def test_without_a_key_the_provider_is_not_asked_and_the_circuit_does_not_count(
    kyc: Stage, settlement: Settlement, secrets: Secrets, content: Any
) -> None:
    secrets.content = content

    for _ in range(FAILURES + 1):
        refused(kyc, settlement, KycUnavailable, "secret: ")

    assert (kyc.sent, kyc.circuit(), kyc.events) == ([], {}, [])


def test_a_secret_that_cannot_be_read_again_leaves_the_refusal_unknown(
    kyc: Stage, settlement: Settlement, secrets: Secrets
) -> None:
    kyc.ask(settlement)
    secrets.content = throttled("GetSecretValue")
    kyc.answers = [(401, b"")]

    refused(kyc, settlement, KycUnavailable, "secret: GetParameterError")

    assert kyc.circuit() == {}


def test_the_opening_of_the_circuit_is_reported_once(kyc: Stage, settlement: Settlement) -> None:
    kyc.open(settlement)
    for _ in range(3):
        refused(kyc, settlement, KycCircuitOpen, "not asked, as the circuit is open")

    assert len(kyc.sent) == FAILURES
    assert kyc.circuit()["state"] == "OPEN"
    (entry,) = kyc.events
    assert {name: entry[name] for name in entry if name != "Detail"} == {
        "Source": "settlement",
        "DetailType": "KycCircuitChanged",
        "EventBusName": "settlement-under-test",
    }
    assert json.loads(entry["Detail"]) == {
        "summary": "the circuit around the KYC provider is OPEN",
        "circuit": "kyc",
        "state": "OPEN",
        "runbook": "docs/runbooks/kyc-outage.md",
    }


def test_one_failure_less_neither_opens_the_circuit_nor_reports_it(
    kyc: Stage, settlement: Settlement
) -> None:
    kyc.answers = [DEAD] * (FAILURES - 1) + [YES]
    for _ in range(FAILURES - 1):
        refused(kyc, settlement, KycUnavailable, "ConnectTimeoutError")

    assert kyc.ask(settlement).decision == "APPROVED"

    assert (kyc.events, kyc.circuit()["failure_count"]) == ([], 0)


def test_a_probe_that_succeeds_closes_the_circuit_and_each_change_is_reported(
    kyc: Stage, settlement: Settlement
) -> None:
    kyc.open(settlement)
    kyc.answers = [YES]
    kyc.recovered()

    assert kyc.ask(settlement).decision == "APPROVED"

    assert kyc.states() == ["OPEN", "HALF_OPEN", "CLOSED"]
    assert kyc.circuit()["state"] == "CLOSED"


def test_a_probe_that_fails_opens_the_circuit_again_and_each_change_is_reported(
    kyc: Stage, settlement: Settlement
) -> None:
    kyc.open(settlement)
    kyc.recovered()

    refused(kyc, settlement, KycUnavailable, "ConnectTimeoutError")
    refused(kyc, settlement, KycCircuitOpen, "not asked")

    assert kyc.states() == ["OPEN", "HALF_OPEN", "OPEN"]
    assert len(kyc.sent) == FAILURES + 1


@pytest.mark.parametrize(
    "bus",
    [1, throttled("PutEvents"), unanswered(), EndpointConnectionError(endpoint_url="https://x.invalid")],
)
def test_a_bus_that_refuses_the_event_changes_nothing(
    kyc: Stage, settlement: Settlement, bus: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(_kyc.logger, "warning", lambda text, **more: warned.append((text, more)))
    kyc.bus = bus

    kyc.open(settlement)
    kyc.answers = [YES]
    kyc.recovered()

    assert kyc.ask(settlement).decision == "APPROVED"
    assert kyc.circuit()["state"] == "CLOSED"
    failed = 1 if bus == 1 else type(bus).__name__
    assert [more for text, more in warned if text == "event not taken"] == [{"failed": failed}] * 3


def test_a_bus_that_accepts_the_event_is_not_logged(
    kyc: Stage, settlement: Settlement, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(_kyc.logger, "warning", lambda text, **more: warned.append((text, more)))

    kyc.open(settlement)

    assert warned == [("circuit", {"circuit": "kyc", "state": "OPEN"})]


def measured(counted: Counted) -> float | None:
    """Return the sum of the circuit's metric since the last call, None if it was not published."""
    telemetry.count("Flushed")
    telemetry.metrics.flush_metrics()
    return counted().get("KycCircuit")


def test_the_metric_is_one_while_the_circuit_is_open_and_zero_with_each_answer(
    kyc: Stage, settlement: Settlement, counted: Counted
) -> None:
    kyc.ask(settlement)
    assert measured(counted) == 0
    kyc.answers = [DEAD]
    refused(kyc, settlement, KycUnavailable, "ConnectTimeoutError")
    assert measured(counted) is None
    kyc.open_after(settlement, FAILURES - 1)
    assert measured(counted) == 1
    refused(kyc, settlement, KycCircuitOpen, "not asked")
    assert measured(counted) == 1
    kyc.recovered()
    refused(kyc, settlement, KycUnavailable, "ConnectTimeoutError")
    assert measured(counted) == 2  # half-open and open again
    kyc.answers = [YES]
    kyc.recovered()
    kyc.ask(settlement)
    assert measured(counted) == 1  # half-open, and the zero of closed
    kyc.ask(settlement)
    assert measured(counted) == 0
