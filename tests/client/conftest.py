"""A readers' API with scripted answers, its client, and the client's clock."""

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest

from settlement_client import Client

Said = tuple[int, dict[str, Any] | bytes, str | None]
"""Status, body and ETag of an answer."""

NOT_FOUND: Said = (404, {"error": "SettlementNotFound", "message": "key: was never claimed"}, None)
DOWN: Said = (503, {"error": "StoreUnavailable", "message": "the table gives no answer"}, None)
SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=test/\d{8}/eu-west-1/execute-api/aws4_request,"
    r" SignedHeaders=\S+, Signature=\w+"
)


@dataclass
class Api:
    """The readers' API: gives `answers` in turn, repeating the last."""

    answers: list[Said] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    posted: list[tuple[dict[str, Any], str | None]] = field(default_factory=list)
    """Body and condition of each POST."""

    def answer(self, target: str, authorization: str) -> Said:
        split = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        self.asked.append({"path": split.path, **query})
        self.authorizations.append(authorization)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Clock:
    """The client's clock. It moves by the client's pauses and by the API's scripted delays."""

    def __init__(self) -> None:
        self.seconds, self.slept = 0.0, list[float]()

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.passed(seconds)

    def passed(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    fake = SimpleNamespace(monotonic=clock.monotonic, sleep=clock.sleep)
    for module in ("posting", "reading"):
        monkeypatch.setattr(f"settlement_client.{module}.time", fake)
    monkeypatch.setattr("random.random", lambda: 1.0)
    return clock


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def session() -> boto3.Session:
    return boto3.Session("test", "test", region_name="eu-west-1")


@pytest.fixture
def client(api: Api, session: boto3.Session) -> Iterator[Client]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            api.posted.append((json.loads(body), self.headers["If-Match"]))
            self.do_GET()

        def do_GET(self) -> None:
            status, content, etag = api.answer(self.path, self.headers["Authorization"])
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if etag is not None:
                self.send_header("ETag", etag)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield Client(api_url=f"http://127.0.0.1:{server.server_port}/", session=session)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
