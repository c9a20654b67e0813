"""A KYC provider of one's own: a real HTTP server that speaks docs/contracts/kyc.openapi.yaml, and can fail.

What it does is decided by a party's account id, `kyc-<behaviour>` and anything after a dot, or else by what
it was last told by `PUT /control`. `GET /control` counts its calls, `POST /control/decide` ends a review.
"""

import argparse
import json
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import urllib3
import yaml
from jsonschema import Draft202012Validator
from standardwebhooks.webhooks import Webhook

CONTRACT = Path(__file__).parent.parent / "docs" / "contracts" / "kyc.openapi.yaml"
BODY_BYTES_MAX = 65_536
HANG_SECONDS = 60
"""How long a caller is kept waiting who does not give up before."""

WEBHOOK_SECONDS_MAX = 60


class Behaviour(StrEnum):
    """What the provider may do when it is asked."""

    APPROVE = "approve"
    REJECT = "reject"
    REVIEW = "review"
    REVIEW_APPROVE = "review-approve"  # the review ends by itself, after the answer
    REVIEW_REJECT = "review-reject"
    EARLY_APPROVE = "early-approve"  # the review ends before the answer
    REFUSE = "refuse"
    BUSY = "busy"
    ERROR = "error"
    REDIRECT = "redirect"
    GARBAGE = "garbage"
    HUGE = "huge"
    CLOSE = "close"
    HANG = "hang"
    DRIP = "drip"
    DRIP_HEADERS = "drip-headers"


_FINAL = (200, 400, 404, 409)
"""The answers of the webhook after which it is not called again."""

_STATUSES = {Behaviour.REFUSE: 400, Behaviour.BUSY: 429, Behaviour.ERROR: 500, Behaviour.REDIRECT: 307}
_DECISIONS = {Behaviour.APPROVE: "APPROVED", Behaviour.REJECT: "REJECTED"}
_VERDICTS = {
    Behaviour.REVIEW_APPROVE: "APPROVED",
    Behaviour.REVIEW_REJECT: "REJECTED",
    Behaviour.EARLY_APPROVE: "APPROVED",
}


@dataclass
class State:
    """What the provider was told, and what it remembers. `calls` counts all that reached it."""

    behaviour: Behaviour = Behaviour.APPROVE
    delay_seconds: float = 0
    api_keys: list[str] = field(default_factory=list)
    webhook_url: str = ""
    signing_secret: str = ""
    calls: int = 0
    answers: dict[str, tuple[bytes, dict[str, str]]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    TOLD = ("behaviour", "delay_seconds", "api_keys", "webhook_url", "signing_secret")

    def tell(self, told: dict[str, Any]) -> None:
        """Take over what it is told. Raises ValueError for what it does not know."""
        if not (isinstance(told, dict) and told.keys() <= set(self.TOLD)):
            raise ValueError(f"control: must be an object with the fields {', '.join(self.TOLD)}")
        if "behaviour" in told:
            told["behaviour"] = Behaviour(told["behaviour"])
        delay = told.get("delay_seconds", 0)
        if not (isinstance(delay, int | float) and delay >= 0):
            raise ValueError("delay_seconds: must be a number from 0 up")
        keys = told.get("api_keys", [])
        if not (isinstance(keys, list) and all(isinstance(key, str) for key in keys)):
            raise ValueError("api_keys: must be a list of strings")
        with self.lock:
            for name, value in told.items():
                setattr(self, name, value)

    def describe(self) -> dict[str, Any]:
        """What it does and has seen; no secrets."""
        return {"behaviour": self.behaviour, "delay_seconds": self.delay_seconds, "calls": self.calls}


class Provider(BaseHTTPRequestHandler):
    """One connection to the provider."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are sent apart
    server: "Server"

    def do_POST(self) -> None:
        """A verification, or an order to end a review."""
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
        """Tell the provider what to do."""
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
            self.server.state.tell(json.loads(body))
        except ValueError as error:
            self._error(400, "InvalidRequest", str(error))
            return
        self._answer(200, self.server.state.describe())

    def do_GET(self) -> None:
        """Ask what it does and has seen."""
        if self.path == "/control":
            self._answer(200, self.server.state.describe())
        elif self.path == "/verifications":
            self._error(405, "MethodNotAllowed", "POST only", Allow="POST")
        else:
            self._error(404, "NotFound", "there is nothing here")

    def __getattr__(self, name: str) -> Any:
        """Any other method is known, and not allowed."""
        if name.startswith("do_"):
            return lambda: self._error(405, "MethodNotAllowed", "POST only", Allow="POST")
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: what it is asked is nobody else's business."""

    def _verify(self, body: bytes) -> None:
        state = self.server.state
        with state.lock:
            state.calls += 1
        if problem := self._problem(body):
            self._error(*problem)
            return
        payment = json.loads(body)
        behaviour = _behaviour(payment, state.behaviour)
        if not self._misbehave(behaviour):
            return
        time.sleep(state.delay_seconds)
        if behaviour in _STATUSES:
            self._error(
                _STATUSES[behaviour], "Asked", f"it was told to {behaviour}", Location="/verifications"
            )
            return
        key = self.headers["Idempotency-Key"]
        content, verification = state.answers.setdefault(
            key, (_canonical(payment), _verification(key, behaviour))
        )
        if content != _canonical(payment):
            self._error(409, "IdempotencyConflict", "the key was used with another payment")
            return
        if behaviour is Behaviour.EARLY_APPROVE:
            self.server.decide(key, _VERDICTS[behaviour])
        self._answer(200, verification)
        if behaviour in (Behaviour.REVIEW_APPROVE, Behaviour.REVIEW_REJECT):
            threading.Thread(target=self.server.decide, args=(key, _VERDICTS[behaviour]), daemon=True).start()

    def _decide(self, body: bytes) -> None:
        fields = ("idempotency_key", "decision", "reference", "event")
        try:
            order = json.loads(body)
            if not (isinstance(order, dict) and order.keys() <= set(fields)):
                raise ValueError(f"decide: must be an object with the fields {', '.join(fields)}")
            if not isinstance(order.get("idempotency_key"), str):
                raise ValueError("idempotency_key: must be a string")
            if not (self.server.state.webhook_url and self.server.state.signing_secret):
                raise ValueError("decide: tell webhook_url and signing_secret first")
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
            for fault in _schema(name).iter_errors(value):
                return 400, "InvalidRequest", f"{name}: {fault.message[:200]}"
        return None

    def _misbehave(self, behaviour: Behaviour) -> bool:
        """Do what no provider should do; return whether it is to be answered properly after all."""
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

    def _body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "0")
        chunked = "Transfer-Encoding" in self.headers
        if chunked or not (length.isascii() and length.isdecimal() and int(length) <= BODY_BYTES_MAX):
            self.close_connection = True
            self._error(
                400, "InvalidRequest", f"body: must be at most {BODY_BYTES_MAX} bytes, with its length"
            )
            return None
        return self.rfile.read(int(length))

    def _error(self, status: int, error: str, message: str, **headers: str) -> None:
        self._answer(status, {"error": error, "message": message}, **headers)

    def _answer(self, status: int, content: dict[str, Any], **headers: str) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """The provider, on 127.0.0.1."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Provider)
        self.state, self.stopped = State(), threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever gives up on a slow answer closes the connection: nothing to tell anybody."""

    def decide(
        self, key: str, decision: str = "APPROVED", reference: str = "", event: str = ""
    ) -> dict[str, Any]:
        """Call the webhook, as often as it takes; return how it answered at last."""
        body = json.dumps(
            {
                "idempotency_key": key,
                "decision": decision,
                "reference": reference or _reference(key),
                "reason": "a person has looked at it",
            }
        )
        give_up_at = time.monotonic() + WEBHOOK_SECONDS_MAX
        while True:
            status, answer = self._send(event or f"evt_{_reference(key)}", body)
            if status in _FINAL or time.monotonic() > give_up_at:
                return {"http_status": status, "answer": answer}
            time.sleep(0.5)

    def _send(self, event: str, body: str) -> tuple[int, Any]:
        now = datetime.now(UTC)
        headers = {
            "Content-Type": "application/json",
            "webhook-id": event,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Webhook(self.state.signing_secret).sign(event, now, body),
        }
        try:
            answer = urllib3.request(
                "POST", self.state.webhook_url, body=body, headers=headers, timeout=WEBHOOK_SECONDS_MAX
            )
        except urllib3.exceptions.HTTPError as error:
            return 599, type(error).__name__
        return answer.status, answer.data.decode(errors="replace")


def _behaviour(payment: dict[str, str], default: Behaviour) -> Behaviour:
    for party in ("payee", "payer"):
        name = payment[party].partition(".")[0].removeprefix("kyc-")
        if payment[party].startswith("kyc-") and name in list(Behaviour):
            return Behaviour(name)
    return default


def _verification(key: str, behaviour: Behaviour) -> dict[str, str]:
    return {
        "decision": _DECISIONS.get(behaviour, "REVIEW"),
        "reference": _reference(key),
        "reason": f"simulated: {behaviour}",
    }


def _reference(key: str) -> str:
    return f"ver_{key.removesuffix(':verify')}"


def _canonical(payment: dict[str, str]) -> bytes:
    return json.dumps(payment, sort_keys=True).encode()


@cache
def _schema(name: str) -> Draft202012Validator:
    contract = yaml.safe_load(CONTRACT.read_text())
    return Draft202012Validator(
        {"$ref": f"#/components/schemas/{name}", "components": contract["components"]}
    )


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    Server(parser.parse_args().port).serve_forever()


if __name__ == "__main__":
    main()
