"""A server that sends any bytes, well-formed or not."""

import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import urllib3

from settlement.core.model.stage_config import StageConfig
from settlement.kyc import client as kyc_client

Talk = Callable[[socket.socket], object]
WAIT_SECONDS_MAX = 60

PERSON = b"canary-of-a-person"
HEAD = b"HTTP/1.1 200 OK\r\n"
HEAD_AND_LENGTH = HEAD + b"Content-Length: 65000\r\n\r\n"
VERDICT = b'{"decision": "APPROVED", "reference": "ver_1", "reason": "%b"}' % PERSON


class Raw:
    """Calls `talk` after each request until it returns False; counts connections."""

    def __init__(self, talk: Talk, context: ssl.SSLContext | None = None) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.closed, self.stopped = threading.Event(), threading.Event()
        self._talk, self._context = talk, context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self.stopped.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(WAIT_SECONDS_MAX)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):  # the client may hang up, or not trust the certificate
            connection.settimeout(WAIT_SECONDS_MAX)
            if self._context:
                connection = self._context.wrap_socket(connection, server_side=True)
            while request := _request(connection):
                self.requests.append(request)
                if self._talk(connection) is False:
                    break
        connection.close()
        self.closed.set()


@contextmanager
def raw(talk: Talk | bytes, context: ssl.SSLContext | None = None) -> Iterator[Raw]:
    """Run a server. If `talk` is bytes, they answer each request and the connection closes."""
    server = Raw(talk if callable(talk) else says(talk), context)
    try:
        yield server
    finally:
        server.stop()


def says(answer: bytes, *, hang_up: bool = True) -> Talk:
    """Send the answer, then hang up or wait for the next request."""

    def talk(connection: socket.socket) -> bool:
        connection.sendall(answer)
        return not hang_up

    return talk


def dripping(head: bytes, tail: bytes) -> Talk:
    """Send the head at once, then the tail, a byte each 50 ms, until the client hangs up."""

    def talk(connection: socket.socket) -> bool:
        connection.sendall(head)
        silence = threading.Event()
        for _ in range(WAIT_SECONDS_MAX * 40):
            for byte in tail:
                silence.wait(0.05)
                connection.sendall(bytes([byte]))
        return False

    return talk


def silent(connection: socket.socket, head: bytes = b"") -> bool:
    """Send only the head, and wait until the client hangs up."""
    connection.sendall(head)
    connection.recv(1)
    return False


def answer(body: bytes = VERDICT, status: int = 200, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 %d Said" % status, b"Content-Length: %d" % len(body), *headers, b"", body]
    return b"\r\n".join(lines)


IMPATIENT = (0.6, 0.4)
"""Connect and read timeouts for incomplete answers; their length does not matter."""


def client(
    url: str, timeouts: tuple[float, float] = (20, 20), provider: str = "verifications"
) -> kyc_client.Client:
    """Return a client; its long default timeouts never fail an immediate answer."""
    connect, read = timeouts
    endpoint = kyc_client.Endpoint(
        url=url,
        provider=provider,
        dataset="default",
        connect_timeout_seconds=connect,  # type: ignore[arg-type]  # shorter than a stage may choose
        read_timeout_seconds=read,  # type: ignore[arg-type]
    )
    return kyc_client.Client(endpoint, StageConfig.from_json(os.environ["STAGE_CONFIG"]))


def _request(connection: socket.socket) -> bytes:
    """Read one request with a Content-Length; return nothing if the client has hung up."""
    received = b""
    while b"\r\n\r\n" not in received:
        if not (more := connection.recv(65_536)):
            return b""
        received += more
    head, _, body = received.partition(b"\r\n\r\n")
    length = next(
        int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
    )
    while len(body) < length:
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


def be_patient(asking: kyc_client.Client) -> None:
    """Let a client wait long for its next answer, as the machine may be slow."""
    asking.endpoint = replace(asking.endpoint, connect_timeout_seconds=20, read_timeout_seconds=20)
    asking._exchanger.connect_seconds = asking._exchanger.read_seconds = 20
    asking._exchanger._pool.timeout = urllib3.Timeout(20)
