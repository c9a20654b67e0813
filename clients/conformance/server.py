"""Conformance cases for every client, and a scripted HTTP server on 127.0.0.1 that plays them.

A case of `cases.json` has these fields:

- `call`: the `method` (`start`, `get`, `wait`, `cancel`, `receive`) and its arguments.
- `exchanges`: each `request` that the client must send, in this order, and the server's `answer`.
- `result`: a reading's `status` and `sequence`, null if the payment is only claimed; or the events' arrivals.
- `error` and `message`: without a `result`, the error's class and a part of its message.
- `pauses`: the seconds between the tries, with the longest jitter.
- `breaks_contract`: true if an answer breaks the published contracts.

A header that is expected to be null must be absent. An answer with `lost` never comes (`all`), or breaks off
(`half`); one with `seconds` takes that long on the client's own clock. `{"$": "settled", …}` is the document
of that name, with the other fields replaced. The server also checks each signature.

`python server.py` serves a client in another language. It prints the list of all cases. Then it reads lines
of JSON from its input, and answers each with a line:

- a case's name starts its server: the answer is the server's address;
- `null` stops the server: the answer is the list of faults, empty if every exchange was as expected.

It exits at the end of its input.
"""

import hashlib
import hmac
import json
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

ACCESS_KEY, SECRET_KEY, REGION = "conformance", "conformance-secret", "eu-west-1"
"""Credentials and region with which every client signs."""

PASSED = "Scripted-Seconds"
"""The header that says how long an answer took, on the client's own clock."""

_AUTHORIZATION = re.compile(
    rf"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/(\d{{8}}/{REGION}/execute-api/aws4_request),"
    r" ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})"
)


def cases() -> dict[str, dict[str, Any]]:
    """Return the cases by name, with the documents to which they refer filled in."""
    table = json.loads((Path(__file__).parent / "cases.json").read_text())
    return {case["name"]: _resolved(case, table["documents"]) for case in table["cases"]}


def _resolved(value: Any, documents: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_resolved(each, documents) for each in value]
    if not isinstance(value, dict):
        return value
    base = _resolved(documents[value["$"]], documents) if "$" in value else {}
    return base | {name: _resolved(each, documents) for name, each in value.items() if name != "$"}


class Script:
    """The exchanges of one case: the expected calls, and the answers."""

    def __init__(self, exchanges: list[dict[str, Any]], passed: Callable[[float], None]) -> None:
        self._left, self._passed = list(exchanges), passed
        self._faults: list[str] = []

    def answer(self, asked: BaseHTTPRequestHandler, body: bytes) -> dict[str, Any]:
        """Compare a call with the next expected one, and return the answer to it."""
        if not self._left:
            self._faults.append(f"{asked.command} {asked.path}: no more calls are expected")
            return {"status": 400, "body": {"error": "InvalidRequest", "message": "unexpected"}}
        exchange = self._left.pop(0)
        self._faults += [*differences(exchange["request"], asked, body), *unsigned(asked, body)]
        answer: dict[str, Any] = exchange["answer"]
        self._passed(answer.get("seconds", 0))
        return answer

    def faults(self) -> list[str]:
        """Return the differences so far, and each exchange that has not taken place."""
        return [*self._faults, *(f"{one['request']['path']}: was not asked" for one in self._left)]


def differences(expected: dict[str, Any], asked: BaseHTTPRequestHandler, body: bytes) -> Iterator[str]:
    """Yield the differences of a call. An expected header that is null must be absent."""
    split = urlsplit(asked.path)
    found: dict[str, Any] = {
        "method": asked.command,
        "path": split.path,
        "query": dict(parse_qsl(split.query)),
        "headers": {name: asked.headers[name] for name in expected.get("headers", {})},
        "body": json.loads(body) if body else None,
    }
    defaults: dict[str, Any] = {"query": {}, "headers": {}, "body": None}
    for name, value in found.items():
        if value != (wanted := expected.get(name, defaults.get(name))):
            yield f"{asked.command} {asked.path}: {name} is {value}, and not {wanted}"


def unsigned(asked: BaseHTTPRequestHandler, body: bytes) -> Iterator[str]:
    """Yield a fault unless the call has a valid Signature Version 4 over host, date, query and body."""
    what = f"{asked.command} {asked.path}"
    found = _AUTHORIZATION.fullmatch(asked.headers["Authorization"] or "")
    if found is None:
        yield f"{what}: Authorization is no signature"
        return
    scope, names, signature = found.groups()
    if not {"host", "x-amz-date"} <= {*names.split(";")}:
        yield f"{what}: host or x-amz-date is not signed"
    if not hmac.compare_digest(signature, _signature(asked, body, scope, names)):
        yield f"{what}: the signature is wrong"


def _signature(asked: BaseHTTPRequestHandler, body: bytes, scope: str, names: str) -> str:
    split = urlsplit(asked.path)
    query = sorted((quote(name), quote(value)) for name, value in parse_qsl(split.query))
    canonical = [
        asked.command,
        split.path,
        "&".join(f"{name}={value}" for name, value in query),
        *(f"{name}:{' '.join((asked.headers[name] or '').split())}" for name in names.split(";")),
        "",
        names,
        hashlib.sha256(body).hexdigest(),
    ]
    hashed = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    signed = "\n".join(["AWS4-HMAC-SHA256", asked.headers["x-amz-date"] or "", scope, hashed])
    key = f"AWS4{SECRET_KEY}".encode()
    for part in [*scope.split("/"), signed]:
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


@contextmanager
def serving(
    exchanges: list[dict[str, Any]], passed: Callable[[float], None] = lambda _: None
) -> Iterator[tuple[str, Script]]:
    """Yield the address of a server, and its script. `passed` moves the client's clock."""
    script = Script(exchanges, passed)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            _send(self, script.answer(self, body))

        do_GET = do_POST  # noqa: N815 (its name in the standard library)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", script
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def _send(to: BaseHTTPRequestHandler, answer: dict[str, Any]) -> None:
    if answer.get("lost") == "all":
        to.connection.shutdown(socket.SHUT_RDWR)
        to.close_connection = True
        return
    content: Any = answer.get("body", "")
    body = (content if isinstance(content, str) else json.dumps(content)).encode()
    to.send_response(answer["status"])
    for name, value in {**answer.get("headers", {}), PASSED: str(answer.get("seconds", 0))}.items():
        to.send_header(name, value)
    to.send_header("Content-Length", str(len(body)))
    to.end_headers()
    to.wfile.write(body[: len(body) // 2] if answer.get("lost") == "half" else body)


def main() -> None:
    """Serve the cases that the input names, one at a time."""
    table = cases()
    print(json.dumps([*table.values()]), flush=True)
    for line in sys.stdin:
        with serving(table[json.loads(line)]["exchanges"]) as (url, script):
            print(json.dumps(url), flush=True)
            sys.stdin.readline()
            print(json.dumps(script.faults()), flush=True)


if __name__ == "__main__":
    main()
