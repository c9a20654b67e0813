"""The simulated KYC provider over HTTP: answers, failures, control, webhook.

`tests/kyc/test_contract.py` checks it against the contract with generated requests.
"""

import base64
import json
import subprocess
import sys
import threading
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import urllib3

from settle.local import kyc_simulator, signed_webhook
from settle.local.json_handler import BODY_BYTES_MAX
from settle.local.kyc_behaviour import Behaviour
from settle.local.ports import free_port
from settlement.core.model.errors import SignatureRefused
from settlement.kyc.webhook_signature import verify
from tests.settle.wire import KEY, PAYMENT, SECONDS_MAX, Delivery, Receiver, Simulator

SECRET = "whsec_" + base64.b64encode(b"shared by the two, and no others alike").decode()
OTHER_SECRET = "whsec_" + base64.b64encode(b"shared with another service altogether").decode()
BOUND_SECONDS = 3
"""Time limit of a failing delivery; the simulator's own limit, a minute, would mean a hundred tries."""

ORDER = {"idempotency_key": f"{KEY}:verify"}
HEADERS = {"Idempotency-Key": f"{KEY}:verify", "Authorization": "Bearer any"}


class Waits(threading.Event):
    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout)
        return False


@pytest.fixture
def waits(simulator: Simulator) -> Waits:
    waits = Waits()
    simulator.server.stopped = waits
    return waits


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses between deliveries; only they advance the provider's clock."""
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: 1000 + sum(slept), sleep=slept.append)
    monkeypatch.setattr(kyc_simulator, "time", clock)
    monkeypatch.setattr(signed_webhook, "time", clock)
    monkeypatch.setattr(kyc_simulator, "WEBHOOK_SECONDS_MAX", BOUND_SECONDS)
    return slept


@pytest.fixture
def provider(simulator: Simulator, receiver: Receiver, slept: list[float]) -> Simulator:
    assert simulator.tell({"webhook_url": receiver.url, "signing_secret": SECRET}).status == 200
    return simulator


def event_of(delivery: Delivery, secret: str = SECRET) -> str:
    """Return the event's id. Raises SignatureRefused unless freshly signed with the secret."""
    return verify(delivery.headers, delivery.body, [secret], datetime.now(UTC))


@pytest.mark.parametrize("chosen_by", ["payee", "payer", "control"])
@pytest.mark.parametrize(
    ("behaviour", "status", "decision"),
    [
        (Behaviour.APPROVE, 200, "APPROVED"),
        (Behaviour.REJECT, 200, "REJECTED"),
        (Behaviour.REVIEW, 200, "REVIEW"),
        (Behaviour.REFUSE, 400, None),
        (Behaviour.BUSY, 429, None),
        (Behaviour.ERROR, 500, None),
        (Behaviour.REDIRECT, 307, None),
    ],
)
def test_an_account_or_the_control_selects_the_simulators_behaviour(
    simulator: Simulator, chosen_by: str, behaviour: Behaviour, status: int, decision: str | None
) -> None:
    if chosen_by == "control":
        assert simulator.tell({"behaviour": behaviour}).status == 200
        answer = simulator.verify()
    else:
        answer = simulator.verify(**{chosen_by: f"kyc-{behaviour}.4f0b2c9e"})

    assert (answer.status, answer.json().get("decision")) == (status, decision)
    assert status != 307 or answer.headers["Location"] == "/verifications"


@pytest.mark.parametrize(
    ("payer", "payee", "decision"),
    [
        ("kyc-reject", "kyc-approve", "APPROVED"),
        ("kyc-reject", "kyc-nonsense", "REJECTED"),
        ("kyc-rejected", "my-kyc-reject", "REVIEW"),
        ("kyc-REJECT", "kyc-", "REVIEW"),
    ],
)
def test_the_payees_name_outranks_the_payers_and_the_control(
    simulator: Simulator, payer: str, payee: str, decision: str
) -> None:
    simulator.tell({"behaviour": "review"})

    assert simulator.verify(payer=payer, payee=payee).json()["decision"] == decision


def test_a_broken_answer_has_the_fault_named_by_the_payee(simulator: Simulator, waits: Waits) -> None:
    assert simulator.verify(payee="kyc-garbage").data == b"<p>hello</p>"
    head, _, body = simulator.raw(payee="kyc-huge").partition(b"\r\n\r\n")
    assert (head, len(body)) == (b"HTTP/1.1 200 OK\r\nContent-Length: 10000000", 10_000_000)
    assert (simulator.raw(payee="kyc-close"), waits.seconds) == (b"", [0])
    assert (simulator.raw(payee="kyc-hang"), waits.seconds) == (b"", [0, 60])


@pytest.mark.parametrize(
    ("behaviour", "head"),
    [
        (Behaviour.DRIP, b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"),
        (Behaviour.DRIP_HEADERS, b"HTTP/1.1 200 OK\r\n"),
    ],
)
def test_a_dripping_answer_sends_two_bytes_a_second_without_end(
    simulator: Simulator, waits: Waits, behaviour: Behaviour, head: bytes
) -> None:
    answer = simulator.raw(payee=f"kyc-{behaviour}")

    assert answer.startswith(head + b'{"decision": "APPROVED"')
    assert len(answer) == len(head) + 99
    assert waits.seconds == [0.5] * 99


def test_a_key_keeps_its_answer_after_any_change_of_settings(simulator: Simulator) -> None:
    simulator.tell({"behaviour": "error"})
    assert simulator.verify().status == 500, "a failure is no answer"
    simulator.tell({"behaviour": "approve"})
    first = simulator.verify()
    simulator.tell({"behaviour": "reject"})

    again, conflict = simulator.verify(), simulator.verify(amount="48.21")

    assert again.json() == first.json()
    assert (conflict.status, conflict.json()["error"]) == (409, "IdempotencyConflict")
    assert simulator.verify("order-2026-000102").json()["decision"] == "REJECTED"
    assert simulator.seen()["calls"] == 5


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        *((None, 401), ("", 401), ("Bearer", 401), ("Bearer new", 401), ("Bearer new-key2", 401)),
        *(("Basic new-key", 401), ("new-key", 401)),
        *(("Bearer old-key", 200), ("bearer new-key", 200)),
    ],
)
def test_only_a_known_api_key_is_accepted(
    simulator: Simulator, authorization: str | None, status: int
) -> None:
    simulator.tell({"api_keys": ["old-key", "new-key"]})
    headers = {name: value for name, value in (HEADERS | {"Authorization": authorization}).items() if value}

    assert simulator.request("POST", "/verifications", json=PAYMENT, headers=headers).status == status


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (PAYMENT, {"Idempotency-Key": f"{KEY}:hold"}),
        (PAYMENT, {"Content-Type": "text/plain"}),
        (b"[" * 50_000, {}),
        (b'"\xff"', {}),
        (PAYMENT | {"fee": "0.48"}, {}),
        (PAYMENT | {"amount": 48.2}, {}),
        (json.dumps(PAYMENT).encode().ljust(BODY_BYTES_MAX + 1), {}),
    ],
    ids=["another step", "no JSON type", "too deep", "not UTF-8", "a field too many", "a number", "too long"],
)
def test_a_request_outside_the_contract_is_refused(
    simulator: Simulator, body: Any, headers: dict[str, str]
) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    all_headers = HEADERS | {"Content-Type": "application/json"} | headers

    answer = simulator.request("POST", "/verifications", body=raw, headers=all_headers)

    assert (answer.status, answer.json()["error"]) == (400, "InvalidRequest")


@pytest.mark.parametrize(
    "request_head", ["Content-Length: -1", "Content-Length: x", "Transfer-Encoding: chunked\r\n\r\n4\r\nnull"]
)
def test_a_request_without_a_valid_length_closes_the_connection(
    simulator: Simulator, request_head: str
) -> None:
    answer = simulator.raw(f"POST /verifications HTTP/1.1\r\n{request_head}\r\n\r\n".encode())

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    "control",
    [
        *({"behavior": "approve"}, {"behaviour": "APPROVE"}, {"behaviour": "reject", "nonsense": 1}),
        *({"delay_seconds": -1}, {"api_keys": "new-key"}, [], None),
    ],
    ids=json.dumps,
)
def test_the_control_refuses_an_unknown_setting_and_changes_nothing(
    simulator: Simulator, control: Any
) -> None:
    simulator.tell({"behaviour": "review", "delay_seconds": 0.5, "api_keys": ["canary"]})

    answer = simulator.tell(control)

    assert (answer.status, answer.json()["error"]) == (400, "InvalidRequest")
    assert simulator.seen() == {"behaviour": "review", "delay_seconds": 0.5, "calls": 0}


def test_a_delay_comes_before_the_answer(simulator: Simulator, slept: list[float]) -> None:
    simulator.tell({"delay_seconds": 2.5})

    assert (simulator.verify().status, slept) == (200, [2.5])


def test_the_simulator_listens_on_localhost_only() -> None:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "settle.local.kyc_simulator", "--port", str(port)])
    try:
        retries = urllib3.Retry(connect=600, backoff_factor=0.1, backoff_max=0.2)
        answer = urllib3.request("GET", f"http://127.0.0.1:{port}/control", retries=retries)
        sockets = psutil.Process(process.pid).net_connections("inet")
    finally:
        process.kill()
        process.wait(SECONDS_MAX)

    assert answer.json() == {"behaviour": "approve", "delay_seconds": 0, "calls": 0}
    assert {s.laddr for s in sockets if s.status == psutil.CONN_LISTEN} == {("127.0.0.1", port)}


@pytest.mark.parametrize(
    ("behaviour", "decision"),
    [("review-approve", "APPROVED"), ("review-reject", "REJECTED"), ("early-approve", "APPROVED")],
)
def test_the_simulator_ends_a_review_by_a_signed_webhook(
    provider: Simulator, receiver: Receiver, behaviour: str, decision: str
) -> None:
    answer = provider.verify(payee=f"kyc-{behaviour}.x").json()
    assert behaviour != "early-approve" or receiver.deliveries.qsize() == 1, "before the answer"

    event = receiver.received()
    assert answer["decision"] == "REVIEW"
    assert event.content.keys() == {"idempotency_key", "decision", "reference", "reason"}
    assert (event.content["decision"], event.content["reference"]) == (decision, answer["reference"])
    assert (event.path, event_of(event)) == ("/webhook", f"evt_ver_{KEY}")


def test_only_a_review_calls_the_webhook(provider: Simulator, receiver: Receiver) -> None:
    provider.verify(payee="kyc-review")
    provider.verify("order-2026-000102", payee="kyc-approve")
    assert provider.verify(payee="kyc-early-approve").status == 409

    assert receiver.deliveries.empty()


def test_a_webhook_is_signed_with_the_latest_secret(provider: Simulator, receiver: Receiver) -> None:
    provider.tell({"signing_secret": OTHER_SECRET})
    provider.decide(ORDER)

    event = receiver.received()
    assert event_of(event, OTHER_SECRET)
    with pytest.raises(SignatureRefused, match="by no secret"):
        event_of(event)


@pytest.mark.parametrize(
    ("order", "content"),
    [
        ({}, {"decision": "APPROVED", "reference": f"ver_{KEY}"}),
        (
            {"decision": "REJECTED", "reference": "ver_other"},
            {"decision": "REJECTED", "reference": "ver_other"},
        ),
        ({"event": "evt_7"}, {"decision": "APPROVED"}),
    ],
    ids=str,
)
def test_a_control_order_ends_a_review_as_ordered(
    provider: Simulator, receiver: Receiver, order: dict[str, str], content: dict[str, str]
) -> None:
    answer = provider.decide(ORDER | order)

    event = receiver.received()
    assert answer.json() == {"http_status": 200, "answer": '{"told": true}'}
    assert content.items() <= event.content.items()
    assert event_of(event) == order.get("event", f"evt_ver_{KEY}")


@pytest.mark.parametrize("order", [{}, ORDER | {"nonsense": "x"}, {"idempotency_key": None}, []], ids=str)
def test_a_malformed_control_order_calls_no_webhook(
    provider: Simulator, receiver: Receiver, order: Any
) -> None:
    assert provider.decide(order).status == 400
    assert receiver.deliveries.empty()


@pytest.mark.parametrize("failing", [[503], [500, 503, 599], [401, 429, 502], [302, 403, 422]], ids=str)
def test_a_failed_webhook_is_called_again_under_the_same_id(
    provider: Simulator, receiver: Receiver, slept: list[float], failing: list[int]
) -> None:
    receiver.statuses.extend(failing)

    answer = provider.decide(ORDER)

    events = [receiver.received() for _ in range(len(failing) + 1)]
    assert answer.json()["http_status"] == 200
    assert {event_of(one) for one in events} == {f"evt_ver_{KEY}"}
    assert len({one.body for one in events}) == 1
    assert (slept, receiver.deliveries.empty()) == ([0.5] * len(failing), True)


def test_each_repeated_delivery_is_signed_afresh(
    provider: Simulator, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signature expires after five minutes, and an outage may last longer."""
    receiver.statuses.append(503)
    moments = iter([datetime(2026, 11, 20, 12, 0, tzinfo=UTC), datetime(2026, 11, 20, 12, 10, tzinfo=UTC)])
    monkeypatch.setattr(signed_webhook, "datetime", SimpleNamespace(now=lambda zone: next(moments)))

    provider.decide(ORDER)

    for minute in (0, 10):
        event = receiver.received()
        verify(event.headers, event.body, [SECRET], datetime(2026, 11, 20, 12, minute, tzinfo=UTC))


@pytest.mark.parametrize("status", [200, 400, 404, 409])
def test_a_final_answer_of_the_receiver_ends_the_delivery(
    provider: Simulator, receiver: Receiver, slept: list[float], status: int
) -> None:
    receiver.statuses.append(status)

    assert provider.decide(ORDER).json() == {"http_status": status, "answer": '{"told": true}'}
    assert (receiver.deliveries.qsize(), slept) == (1, [])


@pytest.mark.parametrize("reachable", [True, False])
def test_a_failing_delivery_is_abandoned_after_its_time_limit(
    provider: Simulator, receiver: Receiver, slept: list[float], reachable: bool
) -> None:
    receiver.statuses.extend([503] * 1000)
    if not reachable:
        receiver.server.server_close()

    answer = provider.decide(ORDER)

    assert answer.json()["http_status"] == (503 if reachable else 599)
    assert sum(slept) == pytest.approx(BOUND_SECONDS, abs=0.5)
