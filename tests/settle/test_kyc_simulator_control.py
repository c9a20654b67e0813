"""What the simulated KYC provider is told, what it refuses, and what it remembers."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import urllib3

from settle.local.kyc_simulator import BODY_BYTES_MAX
from tests.settle.wire import KEY, PAYMENT, Simulator

HEADERS = {
    "Idempotency-Key": f"{KEY}:verify",
    "Authorization": "Bearer any",
    "Content-Type": "application/json",
}


def sent(simulator: Simulator, body: Any = PAYMENT, **headers: str | None) -> urllib3.BaseHTTPResponse:
    """A verification with other headers (without one, where it is None) or another body."""
    wanted = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    kept = {name: value for name, value in wanted.items() if value is not None}
    return simulator.request("POST", "/verifications", body=raw, headers=kept)


def test_the_same_key_gets_the_same_answer_after_any_change_of_the_settings(simulator: Simulator) -> None:
    first = simulator.verify()
    simulator.tell({"behaviour": "reject"})

    again, other = simulator.verify(), simulator.verify("order-2026-000102")

    assert (again.status, again.json()) == (200, first.json())
    assert other.json()["decision"] == "REJECTED"


def test_a_key_without_an_answer_gets_one_once_the_provider_is_well_again(simulator: Simulator) -> None:
    simulator.tell({"behaviour": "error"})
    failed = simulator.verify()
    simulator.tell({"behaviour": "approve"})

    assert (failed.status, simulator.verify().json()["decision"]) == (500, "APPROVED")


@pytest.mark.parametrize("other", [{"amount": "48.21"}, {"payee": "carla"}, {"currency": "USD"}], ids=str)
def test_the_same_key_with_another_payment_is_a_conflict_and_the_answer_stands(
    simulator: Simulator, other: dict[str, str]
) -> None:
    first = simulator.verify()

    conflict = simulator.verify(**other)

    assert (conflict.status, conflict.json()["error"]) == (409, "IdempotencyConflict")
    assert simulator.verify().json() == first.json()


def test_the_order_of_a_payment_s_fields_makes_no_other_payment(simulator: Simulator) -> None:
    first = sent(simulator)

    again = sent(simulator, dict(reversed(PAYMENT.items())))

    assert (again.status, again.json()) == (200, first.json())


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer unknown",
        "Bearer new-key2",
        "Bearer new",
        "Basic new-key",
        "new-key",
    ],
)
def test_no_api_key_or_an_unknown_one_is_refused(simulator: Simulator, authorization: str | None) -> None:
    simulator.tell({"api_keys": ["old-key", "new-key"]})

    answer = sent(simulator, Authorization=authorization)

    assert (answer.status, answer.json()["error"]) == (401, "Unauthenticated")


@pytest.mark.parametrize("authorization", ["Bearer old-key", "Bearer new-key", "bearer new-key"])
def test_each_known_api_key_is_accepted(simulator: Simulator, authorization: str) -> None:
    simulator.tell({"api_keys": ["old-key", "new-key"]})

    assert sent(simulator, Authorization=authorization).status == 200


@pytest.mark.parametrize("authorization", [None, "Bearer", "Basic any"])
def test_a_provider_that_was_told_no_api_keys_takes_any_but_takes_one(
    simulator: Simulator, authorization: str | None
) -> None:
    assert sent(simulator, Authorization=authorization).status == 401
    assert sent(simulator, Authorization="Bearer any").status == 200


REFUSED: dict[str, tuple[Any, dict[str, str | None]]] = {
    "no key": (PAYMENT, {"Idempotency_Key": None}),
    "a key too short": (PAYMENT, {"Idempotency_Key": "short:verify"}),
    "a key of another step": (PAYMENT, {"Idempotency_Key": f"{KEY}:hold"}),
    "no content type": (PAYMENT, {"Content_Type": None}),
    "another content type": (PAYMENT, {"Content_Type": "text/plain"}),
    "no JSON": (b"{", {}),
    "not UTF-8": (b'"\xff"', {}),
    "too deep": (b"[" * 50_000, {}),
    "a list": ([PAYMENT], {}),
    "null": (None, {}),
    "a field missing": ({name: value for name, value in PAYMENT.items() if name != "payee"}, {}),
    "a field too many": (PAYMENT | {"fee": "0.48"}, {}),
    "an amount that is a number": (PAYMENT | {"amount": 48.2}, {}),
    "a negative amount": (PAYMENT | {"amount": "-1.00"}, {}),
    "an account that is none": (PAYMENT | {"payer": "escrow:order"}, {}),
    "a currency that is none": (PAYMENT | {"currency": "euro"}, {}),
}


@pytest.mark.parametrize(("body", "headers"), REFUSED.values(), ids=REFUSED)
def test_what_the_contract_does_not_have_is_refused(
    simulator: Simulator, body: Any, headers: dict[str, str | None]
) -> None:
    answer = sent(simulator, body, **headers)

    assert (answer.status, answer.json()["error"]) == (400, "InvalidRequest")


@pytest.mark.parametrize(("extra", "status"), [(0, 200), (1, 400)])
def test_a_body_is_read_up_to_its_bound(simulator: Simulator, extra: int, status: int) -> None:
    body = json.dumps(PAYMENT).encode()
    padded = body + b" " * (BODY_BYTES_MAX - len(body) + extra)

    assert sent(simulator, padded).status == status


@pytest.mark.parametrize("length", ["-1", "1.0", "+1", "x"])
def test_a_body_without_a_proper_length_is_refused_and_the_connection_closed(
    simulator: Simulator, length: str
) -> None:
    request = f"POST /verifications HTTP/1.1\r\nContent-Length: {length}\r\n\r\n"

    assert simulator.raw(request.encode()).startswith(b"HTTP/1.1 400 ")


def test_a_body_in_chunks_is_refused_and_not_taken_for_the_next_request(simulator: Simulator) -> None:
    request = b"POST /verifications HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nnull\r\n0\r\n\r\n"

    answer = simulator.raw(request)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/verifications", 405),
        ("DELETE", "/verifications", 405),
        ("HEAD", "/verifications", 405),
        ("OPTIONS", "/verifications", 405),
        ("POST", "/", 404),
        ("POST", "/control", 404),
        ("PUT", "/verifications", 405),
        ("PUT", "/nowhere", 404),
        ("GET", "/nowhere", 404),
    ],
)
def test_what_there_is_not_is_told_so(simulator: Simulator, method: str, path: str, status: int) -> None:
    answer = simulator.request(method, path)

    assert answer.status == status
    assert status == 404 or answer.headers["Allow"] == "POST"


def test_a_connection_is_kept_for_the_next_call(simulator: Simulator) -> None:
    with urllib3.HTTPConnectionPool("127.0.0.1", simulator.server.server_port, maxsize=1) as pool:
        for key in ("order-2026-000101", "order-2026-000102"):
            headers = HEADERS | {"Idempotency-Key": f"{key}:verify"}
            assert pool.request("POST", "/verifications", json=PAYMENT, headers=headers).status == 200

        assert pool.num_connections == 1


def test_every_call_that_reaches_the_provider_counts_and_nothing_else_does(simulator: Simulator) -> None:
    simulator.verify()
    simulator.verify()
    simulator.verify(amount="1.00")
    simulator.verify(payee="kyc-error")
    simulator.raw(payee="kyc-close")
    sent(simulator, b"{")
    sent(simulator, Authorization=None)
    simulator.tell({"behaviour": "approve"})
    simulator.request("GET", "/verifications")

    assert simulator.seen()["calls"] == 7


def test_calls_at_once_are_all_counted(simulator: Simulator) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: simulator.verify(f"order-2026-{n:06}"), range(64)))

    assert {answer.status for answer in answers} == {200}
    assert simulator.seen()["calls"] == 64


def test_what_it_was_told_is_shown_without_its_secrets(simulator: Simulator) -> None:
    secrets = {"api_keys": ["canary-1"], "signing_secret": "Y2FuYXJ5LTI="}

    told = simulator.tell({"behaviour": "busy", "delay_seconds": 0.5, "webhook_url": "http://x", **secrets})

    assert told.json() == simulator.seen() == {"behaviour": "busy", "delay_seconds": 0.5, "calls": 0}


def test_what_it_was_not_told_again_stays(simulator: Simulator) -> None:
    simulator.tell({"behaviour": "review", "api_keys": ["new-key"]})
    simulator.tell({"delay_seconds": 0})

    assert simulator.verify().status == 401
    assert simulator.verify(api_key="new-key").json()["decision"] == "REVIEW"


@pytest.mark.parametrize(
    "told",
    [
        {"behavior": "approve"},
        {"calls": 0},
        {"answers": {}},
        {"lock": None},
        {"behaviour": "nonsense"},
        {"behaviour": "APPROVE"},
        {"behaviour": None},
        {"behaviour": ["approve"]},
        {"behaviour": "reject", "nonsense": 1},
        {"delay_seconds": "long"},
        {"delay_seconds": -1},
        {"api_keys": "new-key"},
        [],
        None,
        "approve",
    ],
    ids=json.dumps,
)
def test_the_control_refuses_what_it_does_not_know_and_nothing_changes(
    simulator: Simulator, told: Any
) -> None:
    simulator.tell({"behaviour": "review"})

    answer = simulator.tell(told)

    assert (answer.status, answer.json()["error"]) == (400, "InvalidRequest")
    assert simulator.seen() == {"behaviour": "review", "delay_seconds": 0, "calls": 0}
    assert simulator.verify().json()["decision"] == "REVIEW"


def test_a_control_that_is_no_json_is_refused(simulator: Simulator) -> None:
    assert simulator.request("PUT", "/control", body=b"{").status == 400
