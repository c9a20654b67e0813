"""The console's server: on this machine alone, until its session is ended."""

import http.client
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import boto3
import pytest

from settle.console import server
from settle.console.guard import cookie_name
from settle.console.session import Session
from settle.exit_codes import CommandFailed, Exit
from settle.stack import Stack
from tests.settle.conftest import Command
from tests.settle.desk import Desk

SECONDS_MAX = 60
"""The end of a hang."""


class Served:
    """A console that is served by a thread, and the address that it has announced."""

    def __init__(self, session: Session) -> None:
        self.session, self.announced, self.address = session, threading.Event(), ""
        stack = Stack("under-test", {}, boto3.Session())
        self.thread = threading.Thread(target=server.serve, args=(stack, 0, self._announce))
        self.thread.start()
        assert self.announced.wait(SECONDS_MAX)
        self.port = int(self.address.partition("127.0.0.1:")[2].partition("/")[0])
        self.path = self.address.partition(str(self.port))[2]

    def _announce(self, address: str) -> None:
        self.address = address
        self.announced.set()

    def ask(self, method: str, path: str, body: str = "", **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_MAX)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer

    def end(self, csrf: str, cookie: str) -> int:
        """Send the form that ends the session."""
        headers = {"origin": f"http://127.0.0.1:{self.port}", "cookie": cookie}
        headers |= {"content-type": "application/x-www-form-urlencoded"}
        return self.ask("POST", "/end", urlencode({"csrf": csrf}), **headers).status


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    session = Session()
    monkeypatch.setattr(server, "Session", lambda: session)
    served = Served(session)
    yield served
    if served.thread.is_alive():
        cookie = session.enter(session.token)
        assert served.end(session.csrf, f"{cookie_name(served.port)}={cookie}") == 200
        served.thread.join(SECONDS_MAX)
    assert not served.thread.is_alive()


def test_the_console_is_entered_by_the_printed_address_and_ended_by_its_person(served: Served) -> None:
    strange = served.ask("GET", served.path, host="evil.example")
    entered = served.ask("GET", served.path)
    cookie = str(entered.headers["set-cookie"]).partition(";")[0]

    forged, ended = (served.end(csrf, cookie) for csrf in ("x", served.session.csrf))
    served.thread.join(SECONDS_MAX)

    assert [strange.status, entered.status, forged, ended] == [421, 200, 403, 200]
    assert entered.headers.get("server") is None
    assert not served.thread.is_alive()


def test_the_server_listens_on_this_machine_alone(served: Served) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.2", served.port))  # free: the server is not on all addresses


def test_a_taken_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(CommandFailed, match=f"port: {port}: ") as failed:
            server.serve(Stack("under-test", {}, boto3.Session()), port, lambda address: None)

    assert failed.value.code == Exit.FAILED


def test_the_browser_is_led_by_a_file_of_its_owner_which_goes_with_the_console() -> None:
    with server.door_page('http://127.0.0.1:1/enter?token="><script>') as page:
        mode, text = page.stat().st_mode & 0o777, page.read_text()

    assert mode == 0o600
    assert "<script>" not in text
    assert not page.exists()


def test_the_command_prints_the_address_and_shows_it_by_the_file(
    desk: Desk, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = list[str]()
    monkeypatch.setattr("typer.launch", launched.append)
    monkeypatch.setattr(server, "serve", lambda stack, port, announce: announce(f"http://x/{port}?token=t"))

    shown = command("console", "--port", "8123")
    quiet = command("console", "--no-open")

    assert (shown[0], shown[1]) == (Exit.FINE, "http://x/8123?token=t\n")
    assert (quiet[0], quiet[1]) == (Exit.FINE, "http://x/0?token=t\n")
    assert "once, within 10 minutes" in quiet[2]
    (page,) = map(Path, launched)
    assert "token" not in str(page)
    assert not page.exists()


@pytest.mark.parametrize("port", ["-1", "65536", "x"])
def test_a_port_that_is_none_is_refused(command: Command, port: str) -> None:
    assert command("console", "--port", port)[0] == Exit.USAGE
