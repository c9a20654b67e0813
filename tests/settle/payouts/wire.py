"""The simulated bank over HTTP, on a clock that only `advance_seconds` moves."""

import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import urllib3

from settle.local.bank_ledger import Bank
from settle.local.bank_simulator import Server
from settlement.bank import camt
from settlement.bank.statement import Line, Statement
from settlement.http.exchange import Exchanger
from settlement.payouts.over_http import OverHttp
from settlement.payouts.payout import State, Status
from settlement.payouts.port import Declared
from tests.unit.payouts.rows import PAYOUT, STATES

STARTED = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
DAY, HOUR, PAYS_AFTER = 86_400, 3_600, 60
SECONDS_MAX = 60
REFERENCE, OTHER = PAYOUT.reference, "A" * 32
DECLARED = Declared(
    name="simulated",
    window_seconds=DAY,
    refusals=frozenset({"account_closed", "account_blocked"}),
)


def order(behaviour: str = "pay", **changed: Any) -> dict[str, Any]:
    holder = {"iban": "DE89370400440532013000", "name": f"Bank {behaviour} Ada"}
    return {
        "reference": REFERENCE,
        "amount": "48.20",
        "currency": "EUR",
        "creditor": holder,
        **changed,
    }


def state(behaviour: str) -> State:
    return replace(STATES[Status.SENDING], holder=f"Bank {behaviour} Ada")


@dataclass(frozen=True)
class SimulatedBank:
    """The running bank, and calls to it."""

    server: Server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def client(self) -> OverHttp:
        return OverHttp(Exchanger(self.url, 7, 7), DECLARED, {"EUR": 2, "JPY": 0}, "any")

    def request(self, method: str, path: str, **options: Any) -> urllib3.BaseHTTPResponse:
        """Send one request on a new connection, without retry or redirect."""
        with urllib3.PoolManager(timeout=SECONDS_MAX, retries=False) as pool:
            return pool.request(method, f"{self.url}{path}", redirect=False, **options)

    def submit(
        self, sent: dict[str, Any] | bytes, headers: dict[str, str] | None = None
    ) -> urllib3.BaseHTTPResponse:
        body = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
        reference = json.loads(body)["reference"] if isinstance(sent, dict) else REFERENCE
        given = {
            "Authorization": "Bearer any",
            "Content-Type": "application/json",
            "Idempotency-Key": str(reference),
        }
        return self.request("POST", "/payouts", body=body, headers=given | (headers or {}))

    def find(self, reference: str = REFERENCE, token: str = "any") -> urllib3.BaseHTTPResponse:
        return self.request("GET", f"/payouts/{reference}", headers={"Authorization": f"Bearer {token}"})

    def tell(self, told: Any) -> urllib3.BaseHTTPResponse:
        return self.request("PUT", "/control", body=json.dumps(told).encode())

    def advance(self, seconds: int) -> None:
        assert self.tell({"advance_seconds": seconds}).status == 200

    def seen(self) -> dict[str, Any]:
        described: dict[str, Any] = self.request("GET", "/control").json()
        return described

    def add_line(self, line: Any) -> urllib3.BaseHTTPResponse:
        return self.request("POST", "/control/line", body=json.dumps(line).encode())

    def file(self, query: str = "currency=EUR") -> bytes:
        answer = self.request("GET", f"/control/statement?{query}")
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/xml")
        return answer.data

    def statements(self, query: str = "currency=EUR") -> tuple[list[Line], list[Statement]]:
        return read(self.file(query))


def read(file: bytes) -> tuple[list[Line], list[Statement]]:
    found = list(camt.read(io.BytesIO(file), {"EUR": 2, "JPY": 0, "KWD": 3}))
    lines = [one for one in found if isinstance(one, Line)]
    return lines, [one for one in found if isinstance(one, Statement)]


@contextmanager
def banking() -> Iterator[SimulatedBank]:
    server = Server(0, Bank(lambda: STARTED))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield SimulatedBank(server)
    finally:
        server.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join(SECONDS_MAX)
