import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from botocore.exceptions import BotoCoreError, ClientError

from settle.stack import Stack

KNOWN_SECONDS = 300
"""Seconds to cache whether a route is allowed: IAM still refuses a forbidden order."""

_AT_ONCE = 4
"""Maximum concurrent requests. The orders' API allows ten a second for all people."""

_FORBIDDEN, _MALFORMED = 403, 400


class Allowed:
    """The order routes that this AWS identity may use. Empty orders probe them.

    IAM refuses a forbidden route (403). On an allowed route, the function refuses an empty order (400).
    Neither writes.
    """

    def __init__(self, stack: Stack, clock: Callable[[], float] = time.monotonic) -> None:
        self._stack, self._clock = stack, clock
        self._known: dict[str, tuple[float, bool]] = {}

    def of(self, routes: Iterable[str]) -> frozenset[str]:
        now, wanted = self._clock(), list(dict.fromkeys(routes))
        unknown = [route for route in wanted if now - self._told_at(route) > KNOWN_SECONDS]
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            for route, may in zip(unknown, threads.map(self._ask, unknown), strict=True):
                if may is not None:
                    self._known[route] = (now, may)
        return frozenset(route for route in wanted if self._known.get(route, (0.0, True))[1])

    def _told_at(self, route: str) -> float:
        return self._known.get(route, (float("-inf"), True))[0]

    def _ask(self, route: str) -> bool | None:
        try:
            status = self._stack.door.send(route, {}).status
        except (BotoCoreError, ClientError, OSError):
            return None
        return {_FORBIDDEN: False, _MALFORMED: True}.get(status)
