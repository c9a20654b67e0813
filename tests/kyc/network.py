"""A slow resolver and silent listeners."""

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

from settlement.http import connection as http_connection

HELD_SECONDS_MAX = 120
"""Limit of a lookup that a failed test never releases."""

FUNCTION_SECONDS = 8
"""Lambda's timeout of VerifyKyc."""


class Resolver:
    """A stand-in for getaddrinfo that answers with local `ports`, once allowed."""

    def __init__(self, *ports: int) -> None:
        self.ports: Sequence[int] = ports
        self.lookups = 0
        self.fails = False
        self.may_answer = threading.Event()
        self.may_answer.set()

    def getaddrinfo(self, host: str, port: int, **_: Any) -> list[http_connection.Address]:
        self.lookups += 1
        self.may_answer.wait(HELD_SECONDS_MAX)
        if self.fails:
            raise socket.gaierror(socket.EAI_AGAIN, "no name server answers")
        place = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        return [(*place, ("127.0.0.1", port)) for port in self.ports]

    @property
    def socket(self) -> Any:
        """Return the module `socket` with this resolver, for `http_connection`."""
        return SimpleNamespace(**vars(socket) | {"getaddrinfo": self.getaddrinfo})


@contextmanager
def silent_ports(count: int) -> Iterator[list[int]]:
    """Yield ports that never accept a connection, like a lost route, because their backlog is full."""
    with ExitStack() as stack:
        ports = []
        for _ in range(count):
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            for _ in range(4):
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(listener.getsockname())
            ports.append(listener.getsockname()[1])
        yield ports


@contextmanager
def dripping_handshake() -> Iterator[int]:
    """Yield a port whose server begins a TLS record of 16 KB and sends a byte each 50 ms."""
    stopped = threading.Event()

    def drip(connection: socket.socket) -> None:
        with connection:
            connection.sendall(b"\x16\x03\x03\x40\x00\x02")
            while not stopped.wait(0.05):
                try:
                    connection.sendall(os.urandom(1))
                except OSError:
                    return

    def accept() -> None:
        while not stopped.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=drip, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            stopped.set()
            listener.shutdown(socket.SHUT_RDWR)
