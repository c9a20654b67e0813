"""The provider of the day: its hours, its listener, and its names."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from settle.local.kyc_behaviour import Behaviour
from settle.local.kyc_simulator import Provider, Server

SILENT = 8
"""The addresses before the good one that accept no connection."""

LOOKUP_SECONDS = 2.0


@dataclass(frozen=True)
class Hours:
    """Some hours of the day: the name of their trouble, and their share of the whole day.

    `lookup_seconds` is the time of a lookup of the provider's name, `silent` the number of dead addresses
    before the good one. `garbage` is the share of payments by the one client for whom the answer is garbage.
    """

    name: str
    share: float
    lookup_seconds: float = 0
    silent: int = 0
    garbage: float = 0
    behaviour: Behaviour = Behaviour.APPROVE


DAY = (
    Hours("well", 0.1),
    Hours("slow names", 0.2, lookup_seconds=LOOKUP_SECONDS),
    Hours("eight dead addresses", 0.2, silent=SILENT),
    Hours("garbage for one client", 0.2, garbage=0.2),
    Hours("dead", 0.15, behaviour=Behaviour.HANG),
    Hours("back", 0.15),
)


class _Recording(Provider):
    """The simulated provider. It closes each connection, so every call looks up its name and connects."""

    protocol_version = "HTTP/1.0"
    server: "DayServer"

    def _verify(self, body: bytes) -> None:
        self.server.calls.append((time.time(), self.headers["Idempotency-Key"]))
        super()._verify(body)


class DayServer(Server):
    """The provider on a free port of 127.0.0.1, with the time and payment of each call."""

    def __init__(self) -> None:
        super().__init__(0)
        self.RequestHandlerClass = _Recording
        self.calls: list[tuple[float, str]] = []

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self.server_address[1])

    def begin(self, hours: Hours, names: Path, silent_ports: list[int]) -> None:
        """Switch to the behaviour and the name lookups of these hours."""
        self.state.change({"behaviour": hours.behaviour})
        listening = [*silent_ports[: hours.silent], self.port]
        told = names.with_suffix(".new")
        told.write_text(json.dumps({"seconds": hours.lookup_seconds, "ports": listening}))
        os.replace(told, names)
