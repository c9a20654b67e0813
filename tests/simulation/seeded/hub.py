"""Time and interleaving: all that runs is a greenlet, and one at a time goes on until it has to wait."""

import heapq
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet


class Killed(GreenletExit):
    """The process is gone: nothing after this line happens, and nobody is told."""


class Signal:
    """Something that happens once, and who waits for it."""

    def __init__(self) -> None:
        self.is_set, self.value = False, None
        self.waiting: list[Process] = []


class Process(greenlet):
    """What runs by itself: a call, an execution, a person. `skew` is how far its clock is ahead."""

    def __init__(self, hub: "Hub", act: Callable[[], Any], name: str) -> None:
        super().__init__(self._act, parent=hub.greenlet)
        self._body, self.name = act, name
        self.ticket, self.skew = 0, 0
        self.ended = Signal()
        self._hub = hub

    def _act(self) -> None:
        try:
            self._body()
        except Killed:
            pass
        finally:
            self._hub.set(self.ended)


class Hub:
    """The clock, in milliseconds, and what is to go on when. Chance orders what is due at once."""

    def __init__(self, random: Random) -> None:
        self.now = 0
        self.greenlet = getcurrent()
        self._random, self._serial = random.random, count()
        self._due: list[tuple[int, float, int, Process, int, bool]] = []
        self._processes: list[Process] = []
        self._is_closed = False

    @property
    def process(self) -> Process:
        """Who runs just now."""
        current = getcurrent()
        assert isinstance(current, Process)
        return current

    def spawn(self, act: Callable[[], Any], name: str, delay: int = 0) -> Process:
        process = Process(self, act, name)
        self._processes.append(process)
        self._put(process, delay)
        return process

    def sleep(self, milliseconds: int) -> None:
        """Let time pass, and whoever is due in it go on."""
        if self._is_closed:
            raise Killed
        until = self.now + milliseconds
        if not self._due or self._due[0][0] > until:
            self.now = until
            return
        self._put(self.process, milliseconds)
        self.greenlet.switch()

    def wait(self, signal: Signal, milliseconds: int | None = None) -> bool:
        """Wait for a signal, at most so long; return whether it has come."""
        if self._is_closed:
            raise Killed
        if signal.is_set:
            return True
        signal.waiting.append(self.process)
        if milliseconds is not None:
            self._put(self.process, milliseconds)
        self.greenlet.switch()
        if not signal.is_set:
            signal.waiting.remove(self.process)
        return signal.is_set

    def set(self, signal: Signal, value: Any = None) -> None:
        """Let a signal come; that it has come before stands."""
        if signal.is_set:
            return
        signal.is_set, signal.value = True, value
        for process in signal.waiting:
            self._put(process, 0)
        signal.waiting.clear()

    def kill(self, process: Process) -> None:
        """End a process wherever it is."""
        if process is getcurrent():
            raise Killed
        if not process.dead:
            self._put(process, 0, kill=True)

    def run(self, until: int, is_over: Callable[[], bool]) -> None:
        """Let everything go on until there is nothing more to do, or the time is up."""
        while self._due and self._due[0][0] <= until and not is_over():
            at, _, _, process, ticket, kill = heapq.heappop(self._due)
            if process.dead or (process.ticket != ticket and not kill):
                continue  # it goes on for another reason since
            self.now = max(self.now, at)
            process.ticket += 1
            if kill:
                process.throw(Killed)
                self.set(process.ended)  # which it does itself, if it has begun
            else:
                process.switch()

    def close(self) -> None:
        """End whatever is left."""
        self._is_closed = True
        for process in self._processes:
            if process and not process.dead:
                process.throw(Killed)

    def _put(self, process: Process, delay: int, *, kill: bool = False) -> None:
        process.ticket += not kill
        entry = (self.now + delay, self._random(), next(self._serial), process, process.ticket, kill)
        heapq.heappush(self._due, entry)
