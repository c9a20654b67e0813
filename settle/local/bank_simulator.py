"""A bank for this machine: an HTTP server of docs/contracts/bank.openapi.yaml that can fail.

A creditor's name, `Bank <behaviour> …`, sets a payout's behaviour; otherwise the last `PUT /control` does.

`GET /control` shows the counts. `POST /control/line` books a line without an order.
`GET /control/statement?currency=EUR` writes the new lines up to `&day=` to a file (camt.053);
`&number=1` repeats the first file.
"""

import argparse
import json
import re
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from typing import Any

from settle.local import bank_control
from settle.local.bank_behaviour import Events, Wire, schema
from settle.local.bank_ledger import Answer, Bank
from settle.local.json_handler import JsonHandler
from settle.local.signed_webhook import deliver
from settlement.core.model import strict_json

SLOW_SECONDS = 20
"""A slow answer's delay. The saga times out earlier."""

WEBHOOK_SECONDS_MAX = 60
EARLY_SECONDS_MAX = 2
"""Time limit of an early event, as the caller waits for its answer."""

_PAYOUT = "/payouts/"
_REFERENCE = re.compile(r"[A-Z2-7]{32}", re.ASCII)


class Desk(JsonHandler):
    server: "Server"

    def __getattr__(self, name: str) -> Any:
        """Route every method, known or not."""
        if name.startswith("do_"):
            return self._route
        raise AttributeError(name)

    def _route(self) -> None:
        body = self._body()
        if body is None:
            return
        methods = self._methods()
        if not methods:
            self._error(404, "NotFound", "there is nothing here")
        elif self.command not in methods:
            allowed = ", ".join(methods)
            self._error(405, "MethodNotAllowed", f"{allowed} only", Allow=allowed)
        else:
            try:
                methods[self.command](body)
            except ValueError as error:
                self._error(400, "InvalidRequest", str(error)[:300])

    def _methods(self) -> Mapping[str, Callable[[bytes], None]]:
        path = self.path.partition("?")[0]
        if path.startswith(_PAYOUT):
            return {"GET": self._find}
        routes: dict[str, dict[str, Callable[[bytes], None]]] = {
            "/payouts": {"POST": self._submit},
            "/control": {"GET": self._describe, "PUT": self._change},
            "/control/line": {"POST": self._add_line},
            "/control/statement": {"GET": self._tell_statement},
        }
        return routes.get(path, {})

    # The contract

    def _submit(self, body: bytes) -> None:
        self.server.bank.count(submits=1)
        if not self._is_known():
            return
        order, bank = self._order(body), self.server.bank
        if bank.settings.events is Events.EARLY:
            self.server.tell(bank.next_event(), order["reference"], EARLY_SECONDS_MAX)
        self._deliver(bank.submit(order, body))

    def _find(self, _body: bytes) -> None:
        self.server.bank.count(finds=1)
        if not self._is_known():
            return
        reference = self.path.removeprefix(_PAYOUT)
        if not _REFERENCE.fullmatch(reference):
            raise ValueError(f"reference: must match ^{_REFERENCE.pattern}$")
        self._deliver(self.server.bank.find(reference))

    def _order(self, body: bytes) -> dict[str, Any]:
        if self.headers.get_content_type() != "application/json":
            raise ValueError("content-type: must be application/json")
        order = _parsed(body)
        key = self.headers.get("Idempotency-Key")
        for name, value in (("Reference", key), ("Order", order)):
            for fault in schema(name).iter_errors(value):
                what = "Idempotency-Key" if name == "Reference" else name
                raise ValueError(f"{what}: {fault.message[:200]}")
        if key != order["reference"]:
            raise ValueError("Idempotency-Key: must be the order's reference")
        return dict(order)

    def _is_known(self) -> bool:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        tokens = self.server.bank.settings.tokens
        is_known = scheme.lower() == "bearer" and bool(token) and (not tokens or token in tokens)
        if not is_known:
            self._error(401, "Unauthenticated", "the token is not known")
        return is_known

    def _deliver(self, answer: Answer) -> None:
        if answer.wire is Wire.SLOW:
            self.server.stopped.wait(SLOW_SECONDS)
        if answer.wire is Wire.CUT:
            self.close_connection = True
        elif answer.wire is Wire.GARBAGE:
            self._send(answer.status, b"<p>hello</p>", "text/html")
        else:
            self._answer(answer.status, answer.content)

    # Control

    def _describe(self, _body: bytes) -> None:
        self._answer(200, self.server.bank.describe())

    def _change(self, body: bytes) -> None:
        self.server.bank.change(_parsed(body))
        self._answer(200, self.server.bank.describe())

    def _add_line(self, body: bytes) -> None:
        name = self.server.bank.add_line(bank_control.parse_line(_parsed(body)))
        self._answer(HTTPStatus.CREATED, {"bank_reference": name})

    def _tell_statement(self, _body: bytes) -> None:
        wanted = bank_control.parse_wanted(self.path.partition("?")[2])
        self._send(200, self.server.bank.statement(wanted), "application/xml")


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, bank: Bank | None = None) -> None:
        super().__init__(("127.0.0.1", port), Desk)
        self.bank, self.stopped = bank or Bank(), threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a caller that gave up on a slow answer."""

    def service_actions(self) -> None:
        """Twice a second, do the bank's due work, and send its events."""
        for event, reference in self.bank.events():
            threading.Thread(
                target=self.tell, args=(event, reference, WEBHOOK_SECONDS_MAX), daemon=True
            ).start()

    def tell(self, event: str, reference: str, seconds_max: float) -> None:
        settings = self.bank.settings
        if settings.webhook_url and settings.signing_secret:
            deliver(settings, event, json.dumps({"reference": reference}), seconds_max)


def _parsed(body: bytes) -> Any:
    try:
        return strict_json.parse(body)
    except strict_json.Malformed as malformed:
        raise ValueError(f"body: {malformed}") from None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    Server(parser.parse_args().port).serve_forever()


if __name__ == "__main__":
    main()
