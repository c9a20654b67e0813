"""Simulates time and concurrency: each process is a greenlet, and one runs at a time."""

import heapq
from collections import Counter
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet


class Killed(GreenletExit):
    """Raised in a simulated process to end it, as if it had died."""


class Signal:
    __slots__ = ("is_set", "value", "waiting")

    def __init__(self) -> None:
        self.is_set, self.value = False, None
        self.waiting: list[Process] = []


class Process:
    """A call, an execution or a person.

    `place` names its stream of chance. `skew` is its clock's lead, `clock` the latest time it read (ms).
    """

    __slots__ = (
        "act",
        "carrier",
        "clock",
        "ended",
        "is_killed",
        "is_over",
        "name",
        "place",
        "skew",
        "ticket",
    )

    def __init__(self, act: Callable[[], Any], name: str, place: str) -> None:
        self.act, self.name, self.place = act, name, place
        self.ticket, self.skew, self.clock = 0, 0, 0
        self.ended, self.is_killed, self.is_over = Signal(), False, False
        self.carrier: Carrier | None = None


class Carrier(greenlet):
    """A reusable greenlet: making one takes longer than most processes."""

    process: Any = None
    hub: Any = None

    def run(self) -> None:
        while True:
            try:
                self.process.act()
            except Killed:
                pass
            finally:
                self.hub._end(self.process)
            self.process = self.hub = None
            _idle.append(self)
            assert self.parent
            self.parent.switch()


_idle: list[Carrier] = []
"""Idle carriers, which outlive their worlds."""


class Hub:
    """The simulated clock (ms) and schedule. Processes due at one time run in a random order."""

    def __init__(self, random: Random) -> None:
        self.now = 0
        self.process: Any = None
        self._greenlet = getcurrent()
        self._random, self._serial = random.random, count()
        self._due: list[tuple[int, float, int, Process, int, bool]] = []
        self._processes: list[Process] = []
        self._places: Counter[str] = Counter()
        self.is_closed, self._until = False, 0

    def place(self) -> str:
        return self.process.place if self.process else ""

    def spawn(self, act: Callable[[], Any], name: str, delay: int = 0, *, about: str = "") -> Process:
        place = f"{name} {about}"
        self._places[place] += 1
        process = Process(act, name, f"{place} {self._places[place]}")
        self._processes.append(process)
        self._put(process, delay)
        return process

    def sleep(self, milliseconds: int) -> None:
        if self.is_closed:
            raise Killed
        until = self.now + milliseconds
        if until <= self._until and (not self._due or self._due[0][0] > until):
            self.now = until
            return
        self._put(self.process, milliseconds)
        self._greenlet.switch()

    def wait(self, signal: Signal, milliseconds: int | None = None) -> bool:
        """Wait for a signal, at most this time. Return whether it was set."""
        if self.is_closed:
            raise Killed
        if signal.is_set:
            return True
        process = self.process
        signal.waiting.append(process)
        if milliseconds is not None:
            self._put(process, milliseconds)
        self._greenlet.switch()
        if not signal.is_set:
            signal.waiting.remove(process)
        return signal.is_set

    def set(self, signal: Signal, value: Any = None) -> None:
        if signal.is_set:
            return
        signal.is_set, signal.value = True, value
        for process in signal.waiting:
            self._put(process, 0)
        signal.waiting.clear()

    def kill(self, process: Process) -> None:
        if process is self.process:
            raise Killed
        if not process.is_over:
            process.is_killed = True
            self._put(process, 0, kill=True)

    def run(self, until: int, is_over: Callable[[], bool]) -> None:
        """Run processes until none is left, the time is `until`, or `is_over` returns True."""
        due, self._until = self._due, until
        while due and due[0][0] <= until and not is_over():
            at, _, _, process, ticket, kill = heapq.heappop(due)
            if process.is_over or (not kill and (process.is_killed or process.ticket != ticket)):
                continue  # another signal has resumed it since
            self.now = max(self.now, at)
            process.ticket += 1
            self._go_on(process, kill)

    def close(self) -> None:
        self.is_closed = True
        for process in self._processes:
            if process.carrier and not process.is_over:
                self._go_on(process, kill=True)

    def _go_on(self, process: Process, kill: bool) -> None:
        """Run a process until it waits or ends. Its exception is raised here."""
        carrier = process.carrier
        if carrier is None:
            if kill:
                self._end(process)
                return
            carrier = process.carrier = _idle.pop() if _idle else Carrier()
            carrier.parent, carrier.hub, carrier.process = self._greenlet, self, process
        self.process = process
        if kill:
            carrier.throw(Killed)
        else:
            carrier.switch()
        self.process = None

    def _end(self, process: Process) -> None:
        process.is_over = True
        self.set(process.ended)

    def _put(self, process: Process, delay: int, *, kill: bool = False) -> None:
        process.ticket += not kill
        entry = (self.now + delay, self._random(), next(self._serial), process, process.ticket, kill)
        heapq.heappush(self._due, entry)
