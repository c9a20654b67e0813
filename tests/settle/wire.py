"""The simulated KYC provider over HTTP, and a receiver of its webhook."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from queue import Queue
from typing import Any

import urllib3

from settle.local.kyc_simulator import Server

KEY = "order-2026-000101"
PAYMENT = {"payer": "alice", "payee": "bob", "amount": "48.20", "currency": "EUR"}
SECONDS_MAX = 60
"""Limit of each wait; expected events take less than a second."""


@dataclass(frozen=True)
class Simulator:
    """The running provider, and calls to it."""

    server: Server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def request(self, method: str, path: str, **options: Any) -> urllib3.BaseHTTPResponse:
        """Send one request on a new connection, without retry or redirect."""
        with urllib3.PoolManager(timeout=SECONDS_MAX, retries=False) as pool:
            return pool.request(method, f"{self.url}{path}", redirect=False, **options)

    def verify(self, key: str = KEY, *, api_key: str = "any", **payment: str) -> urllib3.BaseHTTPResponse:
        """Send the contract's request about a payment, by default Alice's 48.20 EUR to Bob."""
        headers = {"Idempotency-Key": f"{key}:verify", "Authorization": f"Bearer {api_key}"}
        return self.request("POST", "/verifications", json=PAYMENT | payment, headers=headers)

    def tell(self, told: Any) -> urllib3.BaseHTTPResponse:
        return self.request("PUT", "/control", body=json.dumps(told).encode())

    def decide(self, order: Any) -> urllib3.BaseHTTPResponse:
        return self.request("POST", "/control/decide", body=json.dumps(order).encode())

    def seen(self) -> dict[str, Any]:
        described: dict[str, Any] = self.request("GET", "/control").json()
        return described

    def raw(self, request: bytes | None = None, **payment: str) -> bytes:
        """Return all bytes of a raw connection until the provider closes it."""
        with socket.create_connection(("127.0.0.1", self.server.server_port), SECONDS_MAX) as wire:
            wire.sendall(request or raw_verification(**payment))
            return b"".join(iter(lambda: wire.recv(1 << 20), b""))


def raw_verification(**payment: str) -> bytes:
    body = json.dumps(PAYMENT | payment).encode()
    head = (
        f"POST /verifications HTTP/1.1\r\nHost: kyc\r\nAuthorization: Bearer any\r\n"
        f"Idempotency-Key: {KEY}:verify\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass(frozen=True)
class Delivery:
    """One webhook call: path, headers in lower case, and body."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> dict[str, str]:
        content: dict[str, str] = json.loads(self.body)
        return content


@dataclass(frozen=True)
class Receiver:
    """Answers deliveries with `statuses` in turn, then with 200."""

    server: HTTPServer
    deliveries: "Queue[Delivery]" = field(default_factory=Queue)
    statuses: list[int] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.server.server_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/webhook"

    def received(self) -> Delivery:
        """Return the next delivery, which must come soon."""
        return self.deliveries.get(timeout=SECONDS_MAX)


@contextmanager
def simulating() -> Iterator[Simulator]:
    server = Server(0)
    with _serving(server):
        yield Simulator(server)
        server.stopped.set()


@contextmanager
def receiving() -> Iterator[Receiver]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.receiver = receiver = Receiver(server)  # type: ignore[attr-defined]
    with _serving(server):
        yield receiver


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        receiver: Receiver = self.server.receiver  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status = receiver.statuses.pop(0) if receiver.statuses else 200
        receiver.deliveries.put(Delivery(self.path, headers, body))
        self.send_response(status)
        answer = b'{"told": true}'
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@contextmanager
def _serving(server: HTTPServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(SECONDS_MAX)
