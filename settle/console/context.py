from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from threading import Lock
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from starlette.requests import Request

from settle import instants
from settle.console import rooms
from settle.console.allowed import Allowed
from settle.console.session import Session
from settle.reports.page.render import Frame
from settle.stack import Stack
from settlement.core.model.timestamps import timestamp


@dataclass(frozen=True)
class Shared(Stack):
    """A stack with shared clients. Threads must not create clients of one session at once."""

    _clients: dict[tuple[str, int], Any] = field(default_factory=dict)
    _lock: Any = field(default_factory=Lock)

    def client(self, service: str, attempts: int = 5) -> Any:
        with self._lock:
            if (service, attempts) not in self._clients:
                self._clients[service, attempts] = super().client(service, attempts)
            return self._clients[service, attempts]


def shared(stack: Stack) -> Stack:
    return Shared(stack.name, stack.outputs, stack.session, stack.endpoint_url)


@dataclass(frozen=True)
class Console:
    stack: Stack
    session: Session
    now: Callable[[], datetime] = instants.now

    @cached_property
    def allowed(self) -> Allowed:
        return Allowed(self.stack)

    @cached_property
    def person(self) -> str:
        """ARN of the identity that gives orders. Empty if AWS does not return it."""
        try:
            return str(self.stack.client("sts").get_caller_identity()["Arn"])
        except (BotoCoreError, ClientError):
            return ""

    def frame(self, request: Request, live: int | None = None) -> Frame:
        at = timestamp(self.now())
        path, links = request.url.path, rooms.links()
        return Frame(self.session.csrf, self.person, self.stack.name, path, at, live, links)
