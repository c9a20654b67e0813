import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import boto3
import pytest

from settle.console import context, server
from settle.console.context import Console
from settle.console.session import Session
from settle.exit_codes import CommandFailed, Exit
from settle.stack import Stack
from tests.settle.conftest import Command
from tests.settle.desk import Desk
from tests.settle.served import SECONDS_MAX, Served, serving


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(Stack("under-test", {}, boto3.Session())) as served:
        yield served


def test_the_printed_address_opens_the_console_until_it_is_ended(served: Served) -> None:
    strange = served.ask("GET", served.path, host="evil.example")
    entered = served.ask("GET", served.path)
    cookie = str(entered.headers["set-cookie"]).partition(";")[0]

    forged, ended = (served.send_end(csrf, cookie) for csrf in ("x", served.session.csrf))
    served.thread.join(SECONDS_MAX)

    assert [strange.status, entered.status, forged, ended] == [421, 200, 403, 200]
    assert entered.headers.get("server") is None
    assert not served.thread.is_alive()


def test_two_concurrent_requests_spend_the_token_once(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second request comes before the first has spent the token."""
    monkeypatch.setattr("settle.console.session.secrets", SimpleNamespace(token_urlsafe=_slow))
    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(lambda _: served.ask("GET", served.path).status, range(2)))

    assert sorted(answers) == [200, 403]


def _slow(size: int) -> str:
    time.sleep(0.2)
    return "cookie"


def test_the_console_listens_on_localhost_only(served: Served) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.2", served.port))  # free: the server is not on all addresses


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        console = Console(Stack("under-test", {}, boto3.Session()), Session())
        with pytest.raises(CommandFailed, match=f"port: {port}: ") as failed:
            server.serve(console, port, lambda address: None)

    assert failed.value.code == Exit.FAILED


def test_the_browser_opens_a_private_temporary_page_with_the_address() -> None:
    with server.door_page('http://127.0.0.1:1/enter?token="><script>') as page:
        mode, text = page.stat().st_mode & 0o777, page.read_text()

    assert mode == 0o600
    assert "<script>" not in text
    assert not page.exists()


def test_the_command_prints_the_address_and_opens_the_browser(
    desk: Desk, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = list[str]()
    monkeypatch.setattr("typer.launch", launched.append)
    monkeypatch.setattr(server, "serve", lambda console, port, announce: announce(f"http://x/{port}?token=t"))
    monkeypatch.setattr(context, "shared", lambda stack: stack)

    shown = command("console", "--port", "8123")
    quiet = command("console", "--no-open")

    assert (shown[0], shown[1]) == (Exit.FINE, "http://x/8123?token=t\n")
    assert (quiet[0], quiet[1]) == (Exit.FINE, "http://x/0?token=t\n")
    assert "once, within 10 minutes" in quiet[2]
    (page,) = map(Path, launched)
    assert "token" not in str(page)
    assert not page.exists()


@pytest.mark.parametrize("port", ["-1", "65536", "x"])
def test_an_invalid_port_is_refused(command: Command, port: str) -> None:
    assert command("console", "--port", port)[0] == Exit.USAGE
