import html
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import uvicorn

from settle.console.app import application
from settle.console.context import Console
from settle.exit_codes import CommandFailed, Exit

HOST = "127.0.0.1"
_CONNECTIONS_MAX = 64
_END_SECONDS = 5
"""Time for a running order to end after Ctrl-C. By then it is recorded, or was not sent."""


def serve(console: Console, port: int, announce: Callable[[str], None]) -> None:
    """Serve until the session ends, or Ctrl-C. `announce` gets the address with the token.

    Several threads use the stack's clients at once.
    """
    with _listening(port) as listener:
        bound = listener.getsockname()[1]

        def end() -> None:
            server.should_exit = True

        config = uvicorn.Config(
            application(console, bound, end),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_CONNECTIONS_MAX,
            timeout_graceful_shutdown=_END_SECONDS,
        )
        server = uvicorn.Server(config)
        announce(f"http://{HOST}:{bound}/enter?token={console.session.token}")
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listener])


@contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    with socket.socket() as listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((HOST, port))
            listener.listen()  # before the address is announced: a browser may be quicker than the server
        except OSError as taken:
            raise CommandFailed(
                Exit.FAILED, f"port: {port}: {taken.strerror}; name another one, or none for a free one"
            ) from taken
        yield listener


@contextmanager
def door_page(address: str) -> Iterator[Path]:
    """Yield a file that sends a browser to an address. Only its owner can read it.

    An address in the browser's arguments would show all users the token.
    """
    handle, name = tempfile.mkstemp(prefix="settle-console-", suffix=".html")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            to = html.escape(address)
            file.write(f'<!DOCTYPE html><meta http-equiv="refresh" content="0; url={to}">')
        yield Path(name)
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()
