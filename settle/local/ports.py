import errno
import secrets
import socket
from contextlib import ExitStack

_DRAWN_FROM = range(20_000, 32_768)
"""Below the ports that Linux and macOS give to those who ask for any."""


def free_port() -> int:
    return free_ports(1)[0]


def free_ports(number: int) -> list[int]:
    """Return free ports."""
    with ExitStack() as held:
        found: list[int] = []
        while len(found) < number:
            port = secrets.choice(_DRAWN_FROM)
            try:
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                found.append(port)
        return found


def is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
