"""FollowPayouts reaches a bank over HTTP, each thread with a connection of its own."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from handlers.payouts import _bank, _payouts
from settlement.core.ledger import keys
from settlement.core.model.errors import StoreUnavailable
from settlement.kyc import shared_secrets
from settlement.payouts.payout import Status
from tests.handlers.payouts.conftest import HOLDER, IBAN, KEY, REFERENCE, Desk
from tests.world.services import API_KEY, NEW_API_KEY, throttled

REAL_BANK = _bank.bank
TRIES = 5


class Served(BaseHTTPRequestHandler):
    """A bank that pays each order once by its key. If `silent`, a call takes effect without an answer."""

    protocol_version = "HTTP/1.1"
    orders: dict[str, dict[str, Any]]
    tokens: list[str]
    silent: bool
    lock: threading.Lock

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert sent["creditor"] == {"iban": IBAN, "name": HOLDER}
        with self.lock:
            assert self.headers["Idempotency-Key"] not in self.orders, "it was sent twice"
            self.orders[self.headers["Idempotency-Key"]] = sent
        self._answer(201, sent | {"status": "accepted"})

    def do_GET(self) -> None:
        reference = self.path.rpartition("/")[2]
        if order := self.orders.get(reference):
            self._answer(200, order | {"status": "paid"})
        else:
            self._answer(404, {"reference": reference, "status": "never seen"})

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        with self.lock:
            self.tokens.append(self.headers["Authorization"])
        if self.silent:
            self.close_connection = True
            return
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def served() -> Iterator[tuple[Any, str]]:
    fresh = {"orders": {}, "tokens": [], "silent": False, "lock": threading.Lock()}
    kind = type("Bank", (Served,), fresh)
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield kind, f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def wired(
    desk: Desk,
    served: tuple[Any, str],
    configure: Callable[[str | None], None],
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Desk, Any]:
    """The desk with the real adapter, circuit and exchanger, at a bank on this machine."""
    kind, url = served
    settings = _payouts.config()
    configure(json.dumps(settings | {"bank": settings["bank"] | {"url": url, "connect_timeout_seconds": 5}}))
    monkeypatch.setattr(_bank, "bank", REAL_BANK)
    return desk, kind


def test_a_payout_is_sent_and_asked_about_over_http(wired: tuple[Desk, Any]) -> None:
    desk, bank = wired
    desk.reserve()

    assert desk.look()["status"] == "ACCEPTED"
    assert desk.look()["status"] == "PAID"

    assert bank.orders.keys() == {REFERENCE}
    assert bank.tokens == [f"Bearer {API_KEY}"] * 2


def test_a_run_of_eight_threads_sends_each_payout_once(wired: tuple[Desk, Any]) -> None:
    desk, bank = wired
    keys_ = desk.many(24)

    assert desk.run()["looked"] == 24

    assert len(bank.orders) == 24
    assert {desk.state(key).status for key in keys_} == {Status.ACCEPTED}
    amounts = {order["reference"]: order["amount"] for order in bank.orders.values()}
    assert amounts == {desk.state(key).payout.reference: "0.01" for key in keys_}


def test_an_order_paid_without_an_answer_is_sent_once(wired: tuple[Desk, Any]) -> None:
    desk, bank = wired
    desk.reserve()
    bank.silent = True
    assert desk.look()["status"] == "UNKNOWN"
    bank.silent = False
    desk.calls.later(minutes=1)

    assert desk.look()["status"] == "PAID"

    assert bank.orders.keys() == {REFERENCE}


def test_an_open_circuit_stops_a_send_before_its_record(wired: tuple[Desk, Any]) -> None:
    desk, bank = wired
    bank.silent = True
    keys_ = desk.many(40)
    desk.calls.counted()

    desk.run()

    assert desk.calls.counted()["BankCircuit"] == 1
    tried = [key for key in keys_ if desk.state(key).is_sent]
    assert TRIES <= len(tried) <= TRIES + 8  # of eight threads, each has one under way
    assert {desk.state(key).status for key in tried} == {Status.UNKNOWN}
    bank.silent = False
    desk.calls.later(minutes=1)
    row = desk.calls.ledger.row(keys.circuit("bank"))
    assert row
    desk.calls.ledger.put(row | {"opened_at": 0})
    vars(_bank._own).clear()
    for _ in range(3):
        desk.run()
        desk.calls.later(hours=1)
    assert {desk.state(key).status for key in keys_} <= {Status.ACCEPTED, Status.PAID}
    assert len(bank.orders) == 40


def test_a_renewed_token_is_used_after_the_cache_has_expired(
    wired: tuple[Desk, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, bank = wired
    desk.reserve()
    desk.look()
    desk.calls.secrets.content["api_key"] = NEW_API_KEY
    desk.calls.secrets.read.clear()
    desk.look()
    assert desk.calls.secrets.read == []  # the old one is still in use

    monkeypatch.setattr(shared_secrets._provider, "store", {})  # a minute later
    desk.look()

    assert bank.tokens == [f"Bearer {API_KEY}", f"Bearer {API_KEY}", f"Bearer {NEW_API_KEY}"]


@pytest.mark.parametrize(
    "content",
    [throttled("GetSecretValue"), "canary", "[]", {}, {"api_key": ""}, {"api_key": "a\r\nb"}, {"api_key": 7}],
    ids=ascii,
)
def test_without_a_token_nothing_is_sent_and_an_alarm_rings(wired: tuple[Desk, Any], content: Any) -> None:
    desk, bank = wired
    desk.reserve()
    desk.calls.secrets.content = content
    desk.calls.counted()

    with desk.calls.writes_nothing(), pytest.raises(StoreUnavailable) as refused:
        desk.look()

    assert desk.calls.counted() == {"StepCalled": 1, "StoreUnavailable": 1, "BankSecretUnreadable": 1}
    assert bank.orders == {}
    assert "canary" not in str(refused.value)


def test_a_payout_is_followed_after_its_currency_left_the_limits(
    wired: tuple[Desk, Any], configure: Callable[[str | None], None]
) -> None:
    desk, _ = wired
    desk.reserve()
    desk.look()
    settings = _payouts.config()
    configure(json.dumps(settings | {"limits": {"payout": {}, "day": {}, "rest_seconds": 0}}))
    vars(_bank._own).clear()

    assert desk.look()["status"] == "PAID"


def test_each_payout_is_sent_under_its_own_key(wired: tuple[Desk, Any]) -> None:
    desk, bank = wired
    desk.reserve()
    desk.look()
    desk.reserve(key="payout-2026-000102", amount="0.01")
    desk.look("payout-2026-000102")

    assert {order["amount"] for order in bank.orders.values()} == {"48.20", "0.01"}
    assert desk.state(KEY).payout.reference in bank.orders
