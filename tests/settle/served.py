"""A console's server in a thread, on a test stack."""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from urllib.parse import urlencode

from settle import instants
from settle.console import server
from settle.console.context import Console
from settle.console.guard import cookie_name
from settle.console.session import Session
from settle.stack import Stack

SECONDS_MAX = 60


class Served:
    def __init__(self, console: Console) -> None:
        self.announced, self.address, self.session = threading.Event(), "", console.session
        self.thread = threading.Thread(target=server.serve, args=(console, 0, self._announce))
        self.thread.start()
        assert self.announced.wait(SECONDS_MAX)
        self.origin, _, path = self.address.partition("/enter")
        self.path = f"/enter{path}"
        self.port = int(self.origin.rpartition(":")[2])

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

    def send_end(self, csrf: str, cookie: str) -> int:
        headers = {"origin": self.origin, "cookie": cookie}
        headers |= {"content-type": "application/x-www-form-urlencoded"}
        return self.ask("POST", "/end", urlencode({"csrf": csrf}), **headers).status


@contextmanager
def serving(stack: Stack, now: Callable[[], datetime] = instants.now) -> Iterator[Served]:
    """Yield a served console; end its session like its user."""
    console = Console(stack, Session(), now)
    served, session = Served(console), console.session
    try:
        yield served
    finally:
        if served.thread.is_alive():
            cookie = session._cookie or session.enter(session.token)
            assert served.send_end(session.csrf, f"{cookie_name(served.port)}={cookie}") == 200
            served.thread.join(SECONDS_MAX)
    assert not served.thread.is_alive()
