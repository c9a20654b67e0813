import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest

from settlement_client import (
    Client,
    InvalidRequest,
    MalformedAnswer,
    NotFound,
    Outcome,
    Reading,
    SettlementClientError,
    Unavailable,
)
from settlement_client import reading as reading_module
from tests.client.payments import KEY, OUTCOMES, PROCESSING, SETTLED

Said = tuple[int, dict[str, Any] | bytes, str | None]
NOT_FOUND: Said = (404, {"error": "SettlementNotFound", "message": "key: was never claimed"}, None)
DOWN: Said = (503, {"error": "StoreUnavailable", "message": "the table gives no answer"}, None)
SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=test/\d{8}/eu-west-1/execute-api/aws4_request,"
    r" SignedHeaders=\S+, Signature=\w+"
)


def said(outcome: dict[str, Any], sequence: int) -> Said:
    return 200, outcome, f'"{sequence}"'


class Clock:
    """A clock moved by pauses and waiting calls."""

    def __init__(self) -> None:
        self.seconds, self.pauses = 0.0, 0

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds, self.pauses = self.seconds + seconds, self.pauses + 1


@dataclass
class Api:
    """The readers' API: gives `answers` in turn, repeating the last."""

    clock: Clock
    answers: list[Said] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    posted: list[tuple[dict[str, Any], str | None]] = field(default_factory=list)
    """Body and condition of each POST."""

    waits: bool = True
    """Whether a call with `wait` takes that time, unless it gets the last answer."""

    def answer(self, target: str, authorization: str) -> Said:
        split = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        self.asked.append({"path": split.path, **query})
        self.authorizations.append(authorization)
        if self.waits:
            self.clock.seconds += int(query.get("wait", "0"))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def serving(api: Api) -> Iterator[str]:
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
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    clock = Clock()
    fake = SimpleNamespace(monotonic=clock.monotonic, sleep=clock.sleep)
    monkeypatch.setattr(reading_module, "time", fake)
    monkeypatch.setattr("random.random", lambda: 1.0)
    return Api(clock)


@pytest.fixture
def client(api: Api) -> Iterator[Client]:
    with serving(api) as url:
        yield Client(api_url=f"{url}/", session=boto3.Session("test", "test", region_name="eu-west-1"))


def test_the_status_is_asked_for_by_a_signed_call(api: Api, client: Client) -> None:
    api.answers = [said(SETTLED, 4)]

    assert client.status(KEY) == Reading(Outcome.from_json(SETTLED), 4)
    assert api.asked == [{"path": f"/settlements/{KEY}"}]
    assert SIGNED.fullmatch(api.authorizations[0])


@pytest.mark.parametrize(
    ("answer", "expected", "words"),
    [
        (NOT_FOUND, NotFound, "404"),
        ((404, {"message": "Not Found"}, None), SettlementClientError, "404"),
        ((400, {"error": "InvalidRequest", "message": "wait: "}, None), InvalidRequest, "400"),
        ((403, {"message": "Forbidden"}, None), SettlementClientError, "403"),
        ((429, {"message": "Too Many Requests"}, None), Unavailable, "429"),
        (DOWN, Unavailable, "503"),
        (said(OUTCOMES[1], 4), MalformedAnswer, "is not the key that was asked for"),
        ((200, SETTLED, None), MalformedAnswer, "etag: must be a sequence"),
        ((200, SETTLED, '"x"'), MalformedAnswer, "etag: must be a sequence"),
        ((200, {"key": KEY}, '"1"'), MalformedAnswer, "outcome."),
    ],
    ids=range(10),
)
def test_each_refusal_has_its_error(
    api: Api, client: Client, answer: Said, expected: type[Exception], words: str
) -> None:
    api.answers = [answer]

    with pytest.raises(expected, match=re.escape(words)) as refused:
        client.status(KEY)

    assert type(refused.value) is expected


def test_no_answer_is_unavailable() -> None:
    session = boto3.Session("test", "test", region_name="eu-west-1")

    with pytest.raises(Unavailable, match="no answer, ask again"):
        Client(api_url="http://127.0.0.1:1", session=session).status(KEY)


def test_a_proxys_page_in_another_encoding_is_unavailable(api: Api, client: Client) -> None:
    api.answers = [(502, "d\u00e9sol\u00e9".encode("latin-1"), None)]

    with pytest.raises(Unavailable, match="502"):
        client.status(KEY)


def test_a_wrong_key_is_refused_before_it_is_asked_for(api: Api, client: Client) -> None:
    with pytest.raises(InvalidRequest, match=r"^key: "):
        client.status("../accounts/dora/entries")

    assert api.asked == []


LIMBO = PROCESSING | {
    "status": "LIMBO",
    "failure": {"step": "hold", "error": "ReversalRequested", "cause": "a person"},
}


@pytest.mark.parametrize("end", [SETTLED, LIMBO], ids=["SETTLED", "LIMBO"])
def test_a_wait_goes_on_until_the_end_by_long_polls(api: Api, client: Client, end: dict[str, Any]) -> None:
    api.answers = [NOT_FOUND, said(PROCESSING, 1), said(PROCESSING, 3), said(end, 4)]

    found = client.wait(KEY, seconds=100)

    assert (found.outcome.status, found.sequence) == (end["status"], 4)
    path = f"/settlements/{KEY}"
    assert api.asked == [{"path": path, "wait": "20", "after": after} for after in ("0", "0", "1", "3")]
    assert api.clock.pauses == 0


def test_a_wait_with_a_sequence_ends_at_the_first_change(api: Api, client: Client) -> None:
    api.answers = [said(PROCESSING, 2), said(PROCESSING, 3), said(SETTLED, 4)]

    found = client.wait(KEY, seconds=100, after=2)

    assert (found.outcome.is_final, found.sequence) == (False, 3)
    assert [call["after"] for call in api.asked] == ["2", "2"]


@pytest.mark.parametrize("seconds", [0, 0.5, 20, 45])
def test_a_timed_out_wait_returns_the_settlement_as_is(api: Api, client: Client, seconds: float) -> None:
    api.answers = [said(PROCESSING, 2)]

    assert client.wait(KEY, seconds) == Reading(Outcome.from_json(PROCESSING), 2)
    assert api.clock.seconds <= seconds + 1
    assert [int(call["wait"]) for call in api.asked] == {
        0: [0],
        0.5: [1, 0],
        20: [20, 0],
        45: [20, 20, 5, 0],
    }[seconds]


@pytest.mark.parametrize(
    ("answer", "error"), [(NOT_FOUND, NotFound), (DOWN, Unavailable)], ids=["unknown", "down"]
)
def test_a_wait_that_never_hears_of_it_says_so(
    api: Api, client: Client, answer: Said, error: type[Exception]
) -> None:
    api.answers = [answer]

    with pytest.raises(error):
        client.wait(KEY, seconds=45)


def test_failures_and_quick_answers_are_asked_again_after_a_pause(api: Api, client: Client) -> None:
    """A server that does not wait is not polled in a busy loop; after failures the pause grows."""
    api.waits, api.answers = False, [DOWN]

    with pytest.raises(Unavailable):
        client.wait(KEY, seconds=100)

    assert api.clock.seconds == 100
    assert len(api.asked) < 12


def test_a_failure_in_between_ends_no_wait(api: Api, client: Client) -> None:
    api.answers = [DOWN, said(PROCESSING, 1), DOWN, said(SETTLED, 4)]

    assert client.wait(KEY, seconds=100).outcome.is_paid


@pytest.mark.parametrize(
    "wrong", [(400, {"error": "InvalidRequest"}, None), (403, {}, None)], ids=["400", "403"]
)
def test_a_wait_that_is_refused_ends_at_once(api: Api, client: Client, wrong: Said) -> None:
    api.answers = [wrong]

    with pytest.raises(SettlementClientError):
        client.wait(KEY, seconds=100)

    assert len(api.asked) == 1
