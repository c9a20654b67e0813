import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from settlement.http.exchange import Exchanger
from settlement.payouts import over_http
from settlement.payouts.over_http import OverHttp
from settlement.payouts.payout import Status, Word
from settlement.payouts.port import (
    Accepted,
    Declared,
    Found,
    NeverSeen,
    NotSendable,
    Refused,
    Unknown,
)
from tests.unit.payouts.rows import PAYOUT, STATES

SENDING = STATES[Status.SENDING]
DECLARED = Declared(name="a-bank", window_seconds=86_400, refusals=frozenset({"account_closed"}))
ABOUT = {"reference": PAYOUT.reference, "amount": "48.20", "currency": "EUR"}
SENT = (
    b'{"amount":"48.20","creditor":{"iban":"DE89370400440532013000","name":"Ada Example"},"currency":"EUR",'
    b'"reference":"4VWYFXI34ASPVOYR3QW6GE23P3BVLFJU"}'
)
OTHER = {"reference": "A" * 32}
TELLS_NOTHING = (401, 403, 404, 408, 409, 418, 425, 429, 500, 502, 503, 504)


def bank(url: str, seconds: int = 7) -> OverHttp:
    return OverHttp(Exchanger(url, seconds, seconds), DECLARED, {"EUR": 2, "JPY": 0}, "the-token")


class Served(BaseHTTPRequestHandler):
    """A server that gives each request the same answer; status 0 closes the connection instead."""

    status, body = 200, b""
    asked: list[tuple[str, Any, bytes]]

    def do_POST(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.asked.append((f"{self.command} {self.path}", self.headers, sent))
        if self.status:
            self.send_response(self.status)
            self.send_header("Content-Length", str(len(self.body)))
            self.end_headers()
            self.wfile.write(self.body)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def banking(status: int, content: object) -> Iterator[tuple[OverHttp, list[tuple[str, Any, bytes]]]]:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    handler = type("Bank", (Served,), {"status": status, "body": body, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield bank(f"http://127.0.0.1:{server.server_address[1]}/v1"), handler.asked  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def submitted(status: int, content: object) -> Accepted | Refused | Unknown:
    with banking(status, content) as (asked, _):
        return asked.submit(SENDING, asked.request(SENDING))


def found(status: int, content: object) -> Found | NeverSeen | Unknown:
    with banking(status, content) as (asked, _):
        return asked.find(SENDING)


@pytest.mark.parametrize(
    ("status", "word"), [(200, "accepted"), (201, "accepted"), (200, "paid"), (201, "paid")]
)
def test_a_send_answered_with_accepted_or_paid_is_accepted(status: int, word: str) -> None:
    assert submitted(status, ABOUT | {"status": word}) == Accepted()


def test_only_a_declared_reason_is_a_refusal() -> None:
    told = {"reference": PAYOUT.reference, "reason": "account_closed"}

    assert submitted(422, told) == Refused("account_closed")
    assert isinstance(submitted(422, told | {"reason": "try_later"}), Unknown)
    assert isinstance(submitted(422, told | OTHER), Unknown)
    assert isinstance(submitted(400, told), Unknown)
    assert isinstance(submitted(422, ["account_closed"]), Unknown)
    assert isinstance(submitted(422, told | {"reason": ["account_closed"]}), Unknown)


@pytest.mark.parametrize("status", TELLS_NOTHING)
def test_any_other_http_status_is_an_unknown_answer(status: int) -> None:
    told = ABOUT | {"status": "accepted", "reason": "account_closed"}

    assert submitted(status, told) == Unknown(f"http status {status}")
    assert found(status, told) == Unknown(f"http status {status}")


@pytest.mark.parametrize(
    "changed",
    [
        OTHER,
        {"amount": "48.2"},
        {"amount": 48.2},
        {"currency": "USD"},
        {"status": "returned?"},
        {"status": None},
        {"status": {}},
    ],
    ids=str,
)
def test_an_answer_with_a_wrong_field_is_unknown(changed: dict[str, Any]) -> None:
    told = ABOUT | {"status": "accepted"} | changed

    assert isinstance(submitted(200, told), Unknown)
    assert isinstance(found(200, told), Unknown)


@pytest.mark.parametrize(
    "said", [b"", b"{", b"[]", b"null", b'{"status": "paid", "status": "paid"}', b"\xff", b"[" * 60_000]
)
def test_a_malformed_answer_is_unknown(said: bytes) -> None:
    assert submitted(200, said) == Unknown("no sound answer")
    assert found(200, said) == Unknown("no sound answer")


def test_a_cut_connection_makes_the_answer_unknown() -> None:
    assert submitted(0, b"") == Unknown("no sound answer")
    assert found(0, b"") == Unknown("no sound answer")


def test_a_silent_banks_answer_is_unknown_after_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        asked = bank(f"http://127.0.0.1:{silent.getsockname()[1]}", 1)

        assert asked.find(SENDING) == Unknown("no sound answer")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"status": "accepted"}, Found(Word.ACCEPTED)),
        ({"status": "paid"}, Found(Word.PAID)),
        ({"status": "returned", "reason": "ac04"}, Found(Word.RETURNED, "ac04")),
        ({"status": "returned"}, Found(Word.RETURNED)),
        ({"status": "refused", "reason": "account_closed"}, Found(Word.REFUSED, "account_closed")),
    ],
)
def test_each_status_of_the_contract_is_found(told: dict[str, str], expected: Found) -> None:
    assert found(200, ABOUT | told) == expected


@pytest.mark.parametrize(
    "told",
    [
        {"status": "refused"},
        {"status": "refused", "reason": "in_progress"},
        {"status": "returned", "reason": "A B"},
        {"status": "returned", "reason": 4},
        {"status": "never seen"},
        {"status": "unknown"},
    ],
)
def test_a_status_without_a_valid_reason_is_unknown(told: dict[str, Any]) -> None:
    assert isinstance(found(200, ABOUT | told), Unknown)


def test_only_the_contracts_404_means_never_seen() -> None:
    never_seen = {"reference": PAYOUT.reference, "status": "never seen"}

    assert found(404, never_seen) == NeverSeen()
    assert isinstance(found(404, never_seen | OTHER), Unknown)
    assert isinstance(found(404, {"message": "Not Found"}), Unknown)
    assert isinstance(found(200, never_seen), Unknown)
    assert isinstance(found(404, b"<html>"), Unknown)


def test_a_submitted_payout_sends_its_idempotency_key_and_recorded_bytes() -> None:
    with banking(201, ABOUT | {"status": "accepted"}) as (asked, requests):
        asked.submit(SENDING, asked.request(SENDING))
    ((what, headers, body),) = requests

    assert what == "POST /v1/payouts"
    assert headers["Idempotency-Key"] == PAYOUT.reference == "4VWYFXI34ASPVOYR3QW6GE23P3BVLFJU"
    assert headers["Authorization"] == "Bearer the-token"
    assert body == SENT


def test_a_poll_sends_only_the_payouts_reference() -> None:
    with banking(404, {}) as (asked, requests):
        asked.find(SENDING)

    assert requests[0][0] == f"GET /v1/payouts/{PAYOUT.reference}"
    assert "Idempotency-Key" not in requests[0][1]


def test_a_requests_bytes_depend_only_on_the_payout() -> None:
    asked = bank("http://127.0.0.1:9")

    assert {asked.request(state) for state in STATES.values()} == {SENT}


def test_a_currency_that_the_bank_refuses_is_not_sent() -> None:
    state = replace(SENDING, payout=replace(PAYOUT, currency="KWD"))

    with pytest.raises(NotSendable, match="takes no KWD"):
        bank("http://127.0.0.1:9").request(state)


def test_a_currency_that_the_stage_dropped_is_not_asked_about() -> None:
    """The payout waits for persons instead, so that other payouts' looks do not fail."""
    state = replace(SENDING, payout=replace(PAYOUT, currency="KWD"))

    with banking(200, ABOUT | {"status": "paid"}) as (asked, requests):
        answers = {asked.submit(state, SENT), asked.find(state)}

    assert answers == {Unknown("a-bank takes no KWD")}
    assert requests == []


def test_a_too_long_exchange_timeout_is_refused() -> None:
    with pytest.raises(ValueError, match="within"):
        bank("http://127.0.0.1:9", 8)


def test_an_event_without_exactly_one_reference_is_malformed() -> None:
    assert over_http.parse_event(b'{"reference": "R", "status": "paid"}') == "R"
    for event in (
        b"",
        b"[]",
        b"{}",
        b'{"reference": ""}',
        b'{"reference": 1}',
        b'{"reference":"A","reference":"B"}',
    ):
        with pytest.raises(over_http.MalformedEvent, match=r"^event: "):
            over_http.parse_event(event)
