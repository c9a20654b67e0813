"""Connects to a provider's addresses in parallel, within one time limit.

    lookup     ├──────┤                 in its own thread, as a lookup cannot be interrupted
    address 1         ├─ silent ───     the one that answered last
    address 2           ├─ silent ─     begins a pause later, though address 1 may still accept
    address 3             ├─┤           accepts: the other attempts are closed

In series, eight silent addresses would take eight connect timeouts.
"""

import errno
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

PAUSE_SECONDS_MIN, PAUSE_SECONDS = (0.01, 0.25)
"""Pauses between attempts: RFC 8305's minimum and recommendation.

With the minimum, fifty addresses are tried in half a second.
"""

LOOKUP_SECONDS_MAX = 30
"""Greatest age of a usable DNS lookup. A late result still serves later connections."""

LOOKUPS_MAX = 4
"""Lookups that may hang at once. Each holds a thread."""

Seconds = float
"""A duration. Amounts never use floats."""

Place = tuple[Any, ...]
"""Address and port for `connect`."""

Address = tuple[Any, ...]
"""A result of getaddrinfo: family, type, protocol, name, place."""


class NoAnswer(Exception):
    """The exchange brought no whole answer in time."""


class Cutoff:
    """Shuts the connection down at an exchange's time limit.

    TLS takes over the socket, so this class has its own duplicate of the descriptor.
    """

    def __init__(self, seconds: Seconds) -> None:
        self.seconds, self.is_over = seconds, False
        self._ends_at = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._watched: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    @property
    def seconds_left(self) -> Seconds:
        return max(0, self._ends_at - time.monotonic())

    def watch(self, connected: socket.socket) -> None:
        """Watch a connection. Raises NoAnswer if the time limit has passed."""
        with self._lock:
            if self.is_over:
                raise NoAnswer(self.told)
            self._let_go()
            self._watched = socket.fromfd(connected.fileno(), connected.family, connected.type)

    def cancel(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._let_go()

    @property
    def told(self) -> str:
        return f"the exchange took longer than {self.seconds} s"

    def _end(self) -> None:
        with self._lock, suppress(OSError):
            self.is_over = True
            if self._watched:
                self._watched.shutdown(socket.SHUT_RDWR)

    def _let_go(self) -> None:
        if self._watched:
            self._watched.close()
        self._watched = None


@dataclass(frozen=True)
class _Lookup:
    """A lookup in its own thread. `began_at` is wall-clock time: it also passes in a frozen environment."""

    began_at: Seconds
    thread: threading.Thread
    found: Future[list[Address]]

    @classmethod
    def begin(cls, host: str, port: int) -> "_Lookup":
        found: Future[list[Address]] = Future()

        def look_up() -> None:
            try:
                found.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
            except (OSError, UnicodeError) as error:
                found.set_exception(error)

        thread = threading.Thread(target=look_up, name="lookup", daemon=True)
        thread.start()
        return cls(time.time(), thread, found)

    @property
    def is_usable(self) -> bool:
        is_recent = 0 <= time.time() - self.began_at <= LOOKUP_SECONDS_MAX
        return is_recent and not (self.found.done() and self.found.exception())


@dataclass
class Addresses:
    """A host's addresses and their last results, for one thread."""

    host: str
    port: int
    _lookup: _Lookup | None = None
    _running: list[_Lookup] = field(default_factory=list)
    _failed_at: dict[Place, int] = field(default_factory=dict)
    """Monotonic time of an address's last failure. A negative time: it has answered since."""

    _connected_to: Place = ()

    def connect(self, seconds: Seconds, cutoff: Cutoff) -> socket.socket:
        """Connect within `seconds`. Raises NoAnswer.

        The address that answered last comes first. The address that failed last comes last.
        """
        self._connected_to = ()
        found = self._look_up(cutoff.seconds_left)
        self._failed_at = {place: self._failed_at.get(place, 0) for *_, place in found}
        found.sort(key=lambda address: self._failed_at[address[-1]])
        try:
            self._connected_to, connected = first_to_accept(found, min(seconds, cutoff.seconds_left))
        except OSError:
            self._lookup = None  # the provider may have moved
            raise NoAnswer(f"no connection to any of {len(found)} addresses") from None
        connected.settimeout(seconds)
        try:
            cutoff.watch(connected)
        except BaseException:
            connected.close()
            raise
        return connected

    def note(self, *, answered: bool) -> None:
        self._failed_at[self._connected_to] = -1 if answered else time.monotonic_ns()

    def _look_up(self, seconds: Seconds) -> list[Address]:
        if self._lookup is None or not self._lookup.is_usable:
            self._running = [lookup for lookup in self._running if lookup.thread.is_alive()]
            if len(self._running) >= LOOKUPS_MAX:
                raise NoAnswer(f"{LOOKUPS_MAX} lookups of the provider's name hang")
            self._lookup = _Lookup.begin(self.host, self.port)
            self._running.append(self._lookup)
        try:
            return list(self._lookup.found.result(timeout=seconds))
        except TimeoutError:
            raise NoAnswer("the provider's name was not looked up in time") from None
        except (OSError, UnicodeError) as error:
            raise NoAnswer(f"the provider's name is not known: {type(error).__name__}") from None


def first_to_accept(addresses: Sequence[Address], seconds: Seconds) -> tuple[Place, socket.socket]:
    """The first address that accepts, and its connection. Raises OSError if none accepts.

    An attempt begins after a pause, or when the previous attempt fails. All pauses together take at most half
    of the time.
    """
    pause = max(PAUSE_SECONDS_MIN, min(PAUSE_SECONDS, seconds / 2 / len(addresses)))
    begins_at = time.monotonic()
    ends_at, waiting = begins_at + seconds, deque(addresses)
    attempts: dict[socket.socket, Place] = {}
    with selectors.DefaultSelector() as selector:
        try:
            while (now := time.monotonic()) < ends_at and (waiting or attempts):
                if waiting and now >= begins_at:
                    address = waiting.popleft()
                    if attempt := _begin(address):
                        attempts[attempt] = address[-1]
                        selector.register(attempt, selectors.EVENT_WRITE, attempt)
                        begins_at = now + pause
                    continue
                for key, _ in selector.select((min(begins_at, ends_at) if waiting else ends_at) - now):
                    attempt = key.data
                    selector.unregister(attempt)
                    place = attempts.pop(attempt)
                    if not attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                        return place, attempt
                    attempt.close()
                    begins_at = now
        finally:
            for loser in attempts:
                loser.close()
    raise OSError(errno.ETIMEDOUT, "no address accepts a connection")


def _begin(address: Address) -> socket.socket | None:
    """Begin an attempt. None: it failed at once, for example without IPv6."""
    family, kind, protocol, _, place = address
    try:
        attempt = socket.socket(family, kind, protocol)
    except OSError:
        return None
    attempt.setblocking(False)
    attempt.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if attempt.connect_ex(place) in (0, errno.EINPROGRESS):
        return attempt
    attempt.close()
    return None
