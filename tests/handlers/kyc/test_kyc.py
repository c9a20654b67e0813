import json
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from handlers.kyc import _provider as _kyc
from handlers.kyc import verify_kyc
from settlement.core import telemetry
from settlement.core.ledger import keys
from settlement.core.model.errors import (
    KycCircuitOpen,
    KycRequestRefused,
    KycUnavailable,
    SettlementError,
    StoreUnavailable,
)
from settlement.core.model.settlement import Settlement
from settlement.kyc import opensanctions as kyc_opensanctions
from tests.handlers.conftest import Calls, Counted
from tests.handlers.kyc.provider_stage import DEAD, FAILURES, YES, Stage, stage
from tests.world.constants import KEY, WIRE
from tests.world.functions import Context
from tests.world.ledger import Ledger
from tests.world.services import API_KEY, NEW_API_KEY, Secrets, throttled, unanswered

OLD, NEW = {"api_key": API_KEY}, {"api_key": NEW_API_KEY}
CREDENTIALS = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:credentials-AbCdEf"


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


def test_the_api_key_is_read_once_for_many_questions(
    kyc: Stage, settlement: Settlement, secrets: Secrets
) -> None:
    for _ in range(3):
        assert kyc.ask(settlement).reference == "ver_1"

    assert kyc.sent == [API_KEY] * 3
    assert secrets.read == [CREDENTIALS]


@pytest.mark.parametrize("left_ms", [0, 5_999])
def test_a_call_without_time_asks_nothing_and_counts_no_failure(
    kyc: Stage, settlement: Settlement, left_ms: int
) -> None:
    """DynamoDB used up the time, so Lambda would end the call before it counted a failure."""
    with pytest.raises(StoreUnavailable, match=r"^kyc: not asked, as too little of the call's time is left$"):
        kyc.ask(settlement, Context(iter([left_ms])))

    assert (kyc.sent, kyc.circuit()) == ([], {})
    assert kyc.ask(settlement, Context(iter([6_000]))).reference == "ver_1"


def test_a_probe_without_time_leaves_the_circuit_half_open(kyc: Stage, settlement: Settlement) -> None:
    kyc.open(settlement)
    kyc.recovered()

    with pytest.raises(StoreUnavailable):
        kyc.ask(settlement, Context(iter([0])))

    assert kyc.states() == ["OPEN", "HALF_OPEN"]
    assert kyc.circuit()["state"] == "HALF_OPEN"


@pytest.mark.parametrize("status", [401, 403])
def test_an_api_key_no_longer_accepted_is_read_again_once(
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


@pytest.mark.parametrize(("status", "reads"), [(401, 2), (403, 2), (422, 1)])
def test_a_refusal_unrelated_to_the_api_key_is_final(
    kyc: Stage, settlement: Settlement, secrets: Secrets, status: int, reads: int
) -> None:
    kyc.answers = [(status, b"canary-answer")]

    refused(kyc, settlement, KycRequestRefused, f"refuses the request with status {status}")

    assert (kyc.sent, len(secrets.read)) == ([API_KEY], reads)
    assert (kyc.circuit(), kyc.events) == ({}, [])


def test_a_refused_api_key_that_cannot_be_reread_means_unavailable(
    kyc: Stage, settlement: Settlement, secrets: Secrets
) -> None:
    kyc.ask(settlement)
    secrets.content = throttled("GetSecretValue")
    kyc.answers = [(401, b"")]

    refused(kyc, settlement, KycUnavailable, "secret: GetParameterError")

    assert (kyc.sent, kyc.circuit()) == ([API_KEY, API_KEY], {})


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


@pytest.mark.parametrize(
    ("bus", "failed"),
    [(0, []), (1, [1]), (throttled("PutEvents"), ["ClientError"]), (unanswered(), ["ReadTimeoutError"])],
)
def test_a_bus_that_refuses_the_event_is_only_logged(
    kyc: Stage, settlement: Settlement, monkeypatch: pytest.MonkeyPatch, bus: Any, failed: list[object]
) -> None:
    warned: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(telemetry.logger, "warning", lambda text, **more: warned.append((text, more)))
    kyc.bus = bus

    kyc.open(settlement)

    assert kyc.circuit()["state"] == "OPEN"
    circuit = ("circuit", {"circuit": "kyc", "state": "OPEN"})
    assert warned == [circuit, *(("event not taken", {"failed": name}) for name in failed)]


def measured(counted: Counted) -> float | None:
    telemetry.count("Flushed")
    telemetry.metrics.flush_metrics()
    return counted().get("KycCircuit")


def test_the_circuits_metric_is_one_while_open_and_otherwise_zero(
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
    refused(kyc, replace(settlement, key="a probe"), KycUnavailable, "ConnectTimeoutError")
    assert measured(counted) == 2  # half-open and open again
    kyc.answers = [YES]
    kyc.recovered()
    kyc.ask(replace(settlement, key="another"))  # not the one that has failed as the probe
    assert measured(counted) == 1  # half-open, and the zero of closed
    kyc.ask(settlement)
    assert measured(counted) == 0


def test_the_scheduled_probe_closes_the_circuit_of_a_recovered_provider(
    kyc: Stage, settlement: Settlement
) -> None:
    verify_kyc.handler(verify_kyc.HEALTH, Context())
    assert kyc.sent == []
    kyc.open(settlement)
    kyc.sent.clear()
    verify_kyc.handler(verify_kyc.HEALTH, Context())
    assert kyc.sent == []  # not due
    kyc.recovered()

    kyc.answers = [(503, b""), (200, b"")]
    verify_kyc.handler(verify_kyc.HEALTH, Context())
    kyc.recovered()
    verify_kyc.handler(verify_kyc.HEALTH, Context())

    assert kyc.states() == ["OPEN", "HALF_OPEN", "OPEN", "HALF_OPEN", "CLOSED"]
    assert len(kyc.sent) == 2
    assert API_KEY not in kyc.sent


def tells_health(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(_kyc._client, "endpoint", replace(_kyc._client.endpoint, health_path=path))


def test_a_persons_probe_runs_at_once_and_returns_the_state(
    kyc: Stage, settlement: Settlement, monkeypatch: pytest.MonkeyPatch
) -> None:
    tells_health(monkeypatch, "/health")
    closed = {"circuit": "kyc", "state": "CLOSED", "probe": "health"}
    kyc.open(settlement)
    kyc.sent.clear()

    kyc.answers = [(503, b""), (200, b"")]

    assert verify_kyc.handler(verify_kyc.NOW, Context()) == closed | {"state": "OPEN"}
    assert verify_kyc.handler(verify_kyc.NOW, Context()) == closed
    assert verify_kyc.handler(verify_kyc.NOW, Context()) == closed
    assert len(kyc.sent) == 2


def test_the_next_payment_probes_a_provider_without_a_health_path(
    kyc: Stage, settlement: Settlement, monkeypatch: pytest.MonkeyPatch
) -> None:
    tells_health(monkeypatch, "")
    kyc.open(settlement)
    kyc.sent.clear()

    told = verify_kyc.handler(verify_kyc.NOW, Context())

    assert told == {"circuit": "kyc", "state": "OPEN", "probe": "payment"}
    assert kyc.sent == []
    kyc.answers = [YES]
    kyc.ask(replace(settlement, key="another"))
    assert kyc.states() == ["OPEN", "HALF_OPEN", "CLOSED"]


def test_a_persons_probe_fails_with_an_error_without_dynamodb(
    kyc: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_kyc._circuit, "make_due", Mock(side_effect=throttled("GetItem")))

    with pytest.raises(StoreUnavailable, match=r"^kyc: the circuit is not read: ClientError$"):
        verify_kyc.handler(verify_kyc.NOW, Context())


# A provider that asks for names


NAMED = WIRE | {"payer_name": "Alice Muster", "payee_name": "Bob Muster"}
NO_MATCH = {"status": 200, "results": []}


@pytest.fixture
def opensanctions(calls: Calls, kyc: Stage, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the questions to OpenSanctions, which finds no match; hold payments with and without names."""
    asked = list[Any]()

    def exchange(method: str, path: str, headers: Any, body: bytes) -> tuple[int, bytes]:
        asked.append(json.loads(body))
        return 200, json.dumps({"responses": {"payer": NO_MATCH, "payee": NO_MATCH}}).encode()

    monkeypatch.setattr(_kyc._client, "_exchange", exchange)
    monkeypatch.setattr(_kyc._client, "_provider", kyc_opensanctions)
    monkeypatch.setattr(_kyc, "ask", kyc.ask)
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("bob", 500)
    for wire in (WIRE, NAMED | {"key": "order-2026-000102"}):
        calls("HoldFunds", wire)
    return asked


@pytest.mark.parametrize("opened_at", [None, 2**40, 0], ids=["closed", "open", "a probe is due"])
def test_a_settlement_without_names_is_refused_without_touching_the_circuit(
    calls: Calls, kyc: Stage, opensanctions: list[Any], opened_at: int | None
) -> None:
    """The key was claimed before names were required, and KycCircuitOpen would cause a useless retry."""
    if opened_at is not None:
        opened = {"state": "OPEN", "failure_count": 5, "opened_at": opened_at}
        kyc.ledger.put(keys.circuit("kyc") | opened)
    before = kyc.circuit()

    for _ in range(FAILURES + 1):
        with calls.writes_nothing(), pytest.raises(KycRequestRefused, match=r"no payer_name, payee_name$"):
            calls("VerifyKyc")

    assert (opensanctions, calls.secrets.read, kyc.events, kyc.circuit()) == ([], [], [], before)
    if opened_at == 0:  # the next payment with names is the probe
        calls("VerifyKyc", NAMED | {"key": "order-2026-000102"})
        assert kyc.states() == ["HALF_OPEN", "CLOSED"]


def test_the_verifications_provider_is_sent_no_names(
    calls: Calls, kyc: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[bytes]()

    def exchange(method: str, path: str, headers: Any, body: bytes) -> tuple[int, bytes]:
        asked.append(body)
        return YES

    monkeypatch.setattr(_kyc._client, "_exchange", exchange)
    monkeypatch.setattr(_kyc, "ask", kyc.ask)
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("bob", 500)
    for state in ("HoldFunds", "VerifyKyc"):
        calls(state, NAMED)

    (question,) = asked
    assert json.loads(question).keys() == {"payer", "payee", "amount", "currency"}
    assert KEY not in question.decode()
