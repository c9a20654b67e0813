"""A KYC provider for this machine: an HTTP server of docs/contracts/kyc.openapi.yaml that can fail.

A party's account id, `kyc-<behaviour>[.suffix]`, sets the behaviour; otherwise the last `PUT /control` does.
`GET /control` counts its calls; `POST /control/decide` ends a review.
"""

import argparse
import json
import threading
import time
from http.server import ThreadingHTTPServer
from typing import Any

from settle.local.json_handler import JsonHandler
from settle.local.kyc_behaviour import (
    ERROR_STATUSES,
    REVIEW_VERDICTS,
    Behaviour,
    State,
    behaviour_of,
    canonical,
    reference_of,
    schema,
    verification_of,
)
from settle.local.signed_webhook import deliver

HANG_SECONDS = 60
"""Time before a hanging connection closes without an answer."""

WEBHOOK_SECONDS_MAX = 60


class Provider(JsonHandler):
    server: "Server"

    def do_POST(self) -> None:
        body = self._body()
        if body is None:
            return
        if self.path == "/verifications":
            self._verify(body)
        elif self.path == "/control/decide":
            self._decide(body)
        else:
            self._error(404, "NotFound", "there is nothing here")

    def do_PUT(self) -> None:
        body = self._body()
        if body is None:
            return
        if self.path == "/verifications":
            self._error(405, "MethodNotAllowed", "POST only", Allow="POST")
            return
        if self.path != "/control":
            self._error(404, "NotFound", "there is nothing here")
            return
        try:
            self.server.state.change(json.loads(body))
        except ValueError as error:
            self._error(400, "InvalidRequest", str(error))
            return
        self._answer(200, self.server.state.describe())

    def do_GET(self) -> None:
        """Answer a request, without counting it as a call."""
        if self.path == "/control":
            self._answer(200, self.server.state.describe())
        elif self.path == "/verifications":
            self._error(405, "MethodNotAllowed", "POST only", Allow="POST")
        elif self.path == "/health":
            self._tell_health(self.server.state.behaviour)
        else:
            self._error(404, "NotFound", "there is nothing here")

    def __getattr__(self, name: str) -> Any:
        """Answer 405 to any other method."""
        if name.startswith("do_"):
            return lambda: self._error(405, "MethodNotAllowed", "POST only", Allow="POST")
        raise AttributeError(name)

    def _tell_health(self, behaviour: Behaviour) -> None:
        if not self._misbehave(behaviour):
            return
        if behaviour in ERROR_STATUSES:
            self._error(ERROR_STATUSES[behaviour], "Asked", f"it was told to {behaviour}")
        else:
            self._answer(200, {"status": "ok"})

    def _verify(self, body: bytes) -> None:
        state = self.server.state
        with state.lock:
            state.calls += 1
        if problem := self._problem(body):
            self._error(*problem)
            return
        payment = json.loads(body)
        behaviour = behaviour_of(payment, state.behaviour)
        if not self._misbehave(behaviour):
            return
        time.sleep(state.delay_seconds)
        if behaviour in ERROR_STATUSES:
            self._error(
                ERROR_STATUSES[behaviour], "Asked", f"it was told to {behaviour}", Location="/verifications"
            )
            return
        key = self.headers["Idempotency-Key"]
        content, verification = state.answers.setdefault(
            key, (canonical(payment), verification_of(key, behaviour))
        )
        if content != canonical(payment):
            self._error(409, "IdempotencyConflict", "the key was used with another payment")
            return
        if behaviour is Behaviour.EARLY_APPROVE:
            self.server.decide(key, REVIEW_VERDICTS[behaviour])
        self._answer(200, verification)
        if behaviour in (Behaviour.REVIEW_APPROVE, Behaviour.REVIEW_REJECT):
            threading.Thread(
                target=self.server.decide, args=(key, REVIEW_VERDICTS[behaviour]), daemon=True
            ).start()

    def _decide(self, body: bytes) -> None:
        fields = ("idempotency_key", "decision", "reference", "event")
        try:
            order = json.loads(body)
            if not (isinstance(order, dict) and order.keys() <= set(fields)):
                raise ValueError(f"decide: must be an object with the fields {', '.join(fields)}")
            if not isinstance(order.get("idempotency_key"), str):
                raise ValueError("idempotency_key: must be a string")
            if not (self.server.state.webhook_url and self.server.state.signing_secret):
                raise ValueError("decide: set webhook_url and signing_secret first")
        except ValueError as error:
            self._error(400, "InvalidRequest", str(error))
            return
        self._answer(200, self.server.decide(order.pop("idempotency_key"), **order))

    def _problem(self, body: bytes) -> tuple[int, str, str] | None:
        scheme, _, api_key = self.headers.get("Authorization", "").partition(" ")
        known = self.server.state.api_keys
        if scheme.lower() != "bearer" or not api_key or (known and api_key not in known):
            return 401, "Unauthenticated", "the API key is not known"
        if self.headers.get_content_type() != "application/json":
            return 400, "InvalidRequest", "content-type: must be application/json"
        try:
            payment = json.loads(body)
        except (ValueError, RecursionError):
            return 400, "InvalidRequest", "body: must be JSON"
        checks = {"IdempotencyKey": self.headers.get("Idempotency-Key"), "Payment": payment}
        for name, value in checks.items():
            for fault in schema(name).iter_errors(value):
                return 400, "InvalidRequest", f"{name}: {fault.message[:200]}"
        return None

    def _misbehave(self, behaviour: Behaviour) -> bool:
        """Apply the behaviour. Return True if a proper answer must follow."""
        if behaviour in (Behaviour.CLOSE, Behaviour.HANG):
            self.close_connection = True
            self.server.stopped.wait(HANG_SECONDS if behaviour is Behaviour.HANG else 0)
            return False
        raw = {
            Behaviour.GARBAGE: b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n<p>hello</p>",
            Behaviour.HUGE: b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n" + b" " * 10_000_000,
        }.get(behaviour)
        if raw:
            self.close_connection = True
            self.wfile.write(raw)
            return False
        if behaviour in (Behaviour.DRIP, Behaviour.DRIP_HEADERS):
            self.close_connection = True
            text = b'{"decision": "APPROVED", "reference": "' + b"x" * 60
            head = b"HTTP/1.1 200 OK\r\n"
            if behaviour is Behaviour.DRIP:
                head += b"Content-Length: 100\r\n\r\n"
            self.wfile.write(head)
            for byte in text:
                if self.server.stopped.wait(0.5):
                    break
                self.wfile.write(bytes([byte]))
            return False
        return True


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Provider)
        self.state, self.stopped = State(), threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a caller that gave up on a slow answer."""

    def decide(
        self, key: str, decision: str = "APPROVED", reference: str = "", event: str = ""
    ) -> dict[str, Any]:
        """Send a decision by the webhook until a final answer or WEBHOOK_SECONDS_MAX. Return the answer."""
        body = json.dumps(
            {
                "idempotency_key": key,
                "decision": decision,
                "reference": reference or reference_of(key),
                "reason": "a person has looked at it",
            }
        )
        status, answer = deliver(self.state, event or f"evt_{reference_of(key)}", body, WEBHOOK_SECONDS_MAX)
        return {"http_status": status, "answer": answer}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    Server(parser.parse_args().port).serve_forever()


if __name__ == "__main__":
    main()
