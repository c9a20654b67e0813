from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from random import Random
from typing import Any, TypeVar

from tests.world.constants import NONCE

T = TypeVar("T")


class Fault(StrEnum):
    CONFLICT = "conflict"
    """DynamoDB refuses a write while another write to one of its rows is in progress."""

    THROTTLED = "throttled"
    UNREACHED = "unreached"
    LOST = "lost"
    """The call takes effect, but its answer is lost."""

    KILLED_BEFORE = "killed before"
    """The process dies before the call."""

    KILLED_AFTER = "killed after"
    """The process dies after the call took effect."""

    FROZEN = "frozen"
    """The process stops until its caller has timed out, then continues as a zombie."""

    STOPPED = "stopped"
    """The calling execution stops; the function continues."""

    TWICE = "twice"
    """Two calls of the function run concurrently."""

    SILENT = "silent"
    """The provider never answers."""


READS = (
    Fault.THROTTLED,
    Fault.UNREACHED,
    Fault.KILLED_BEFORE,
    Fault.KILLED_AFTER,
    Fault.FROZEN,
    Fault.STOPPED,
)
WRITES = (Fault.CONFLICT, Fault.CONFLICT, *READS, Fault.LOST, Fault.LOST)
"""Faults of a write. Those that only writes have are listed twice, since writes are rare."""
ASKS = (*READS, Fault.SILENT, Fault.SILENT)
STARTS = (Fault.THROTTLED, Fault.UNREACHED, Fault.LOST, Fault.KILLED_BEFORE, Fault.KILLED_AFTER, Fault.FROZEN)
CALLS = (Fault.TWICE, Fault.THROTTLED, Fault.UNREACHED, Fault.STOPPED)
TASKS = (Fault.THROTTLED, Fault.LOST, Fault.STOPPED)


BROKEN = ("Runtime.ImportModuleError", "KeyError", "Runtime.OutOfMemory", "ClientError")
"""Errors of a badly deployed function, which no machine's definition lists."""

REVERSALS = ("BeginCompensation", "RefundFee", "ReclaimFunds", "ReclaimFunds", "VoidHold", "EnterLimbo")
"""Functions that a bad deployment can break. Their failures are never refusals."""

OUTAGES = (
    ("reads", "writes"),
    ("writes",),
    ("writes",),
    ("states",),
    ("lambda",),
    ("events",),
    ("provider",),
)
"""Services that can fail together for longer than all retries; writes fail more often."""


class Streams(Random):
    """Random numbers in a stream per place, so one more call at a place changes no other place's numbers."""

    def __init__(self, seed: int | str, place: Callable[[], str] = str) -> None:
        self._streams, self.place = dict[str, Random](), place
        super().__init__(seed)

    def seed(self, a: Any = None, version: int = 2) -> None:
        self._seed = a
        self._streams.clear()

    def random(self) -> float:
        return self._stream().random()

    def getrandbits(self, k: int, /) -> int:
        return self._stream().getrandbits(k)

    def _stream(self) -> Random:
        place = self.place()
        stream = self._streams.get(place)
        if stream is None:
            stream = self._streams[place] = Random(f"{self._seed} {place}")
        return stream


class Chance:
    """A seed's random choices, with its own rate and kinds of faults."""

    def __init__(self, seed: int, since: int = 0) -> None:
        self.random, self._nonces = Streams(seed), Random(f"nonces {seed}")
        self.faults_end = False
        self._rate = self.random.choice((0.0, 0.02, 0.1, 0.2, 0.4))
        kinds = {kind for kind in Fault if kind is not Fault.SILENT and self.random.random() < 0.5}
        own = Random(f"silent {seed}")  # added later; it must not change other histories
        self._kinds = frozenset(kinds | {Fault.SILENT} if own.random() < 0.5 else kinds)
        self.meddling = self.random.choice((0.0, 0.0, 0.2, 0.5))
        """Probability that a person or stray call interferes right after a settlement's change."""

        self.hurry = self.random.choice((0.1, 0.3, 1.0))
        """Probability that a request sets a deadline."""

        self.skew_max = self.random.choice((0, 0, 3_000, 3_600_000))
        """A host's maximum clock error, in milliseconds."""

        own = Random(f"broken {seed}")  # added later, too
        self._broken = own.choice(REVERSALS) if own.random() < 1 / 6 else ""
        broken_at = since + int(own.random() * 300_000)
        self._broken_while = range(broken_at, broken_at + int(own.random() * 1_200_000))
        self._broken_by = own.choice(BROKEN)
        self._slow = self.random.choice((5, 50, 2_000))
        self._out = self.random.choice(OUTAGES) if self.random.random() < 0.2 else ()
        begins = since + int(self.random.random() * 300_000)
        self._outage = range(begins, begins + int(self.random.random() * 1_200_000))

    def fault(self, kinds: Sequence[Fault], service: str, now: int) -> Fault | None:
        if self.faults_end:
            return None
        if service in self._out and now in self._outage:
            return Fault.THROTTLED
        if self.random.random() >= self._rate:
            return None
        kind = self.random.choice(kinds)
        return kind if kind in self._kinds else None

    def broken(self, function: str, now: int) -> str | None:
        """Return the error of a function that a deployment has broken for now, or None."""
        if self.faults_end or function != self._broken or now not in self._broken_while:
            return None
        return self._broken_by

    def nonce(self) -> str:
        """Return a nonce from separate draws, so other choices do not depend on it."""
        return f"{self._nonces.getrandbits(32):08x}"

    def latency(self) -> int:
        """Return a one-way latency in milliseconds."""
        return int(self.random.random() * self._slow)

    def frozen(self) -> int:
        """Return a freeze's length in milliseconds: up to 25 minutes, which is past the deadline."""
        return int(2 ** (13 + self.random.random() * 7.5))

    def within(self, low: int, high: int) -> int:
        return int(low + self.random.random() * (high - low))

    def happens(self, probability: float) -> bool:
        return self.random.random() < probability

    def luck(self) -> float:
        """Return a number from 0 to 1; higher is better for the payment."""
        return self.random.random()

    def chaos(self) -> int:
        """Return the duration of the faults, in milliseconds."""
        return self.within(60_000, 2_400_000)

    def one_of(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)


class Script(Chance):
    """Replaces chance: a call takes 1 ms each way, and the script sets faults by call number."""

    def __init__(self, faults: Mapping[int, Fault], luck: float = 1.0) -> None:
        super().__init__(0)
        self._faults, self._luck, self.meddling, self.skew_max = faults, luck, 0.0, 0
        self._broken = ""
        self.possible: list[Sequence[Fault]] = []

    def fault(self, kinds: Sequence[Fault], service: str, now: int) -> Fault | None:
        if self.faults_end:
            return None
        self.possible.append(kinds)
        return self._faults.get(len(self.possible) - 1)

    def nonce(self) -> str:
        return NONCE

    def latency(self) -> int:
        return 1

    def frozen(self) -> int:
        return 60_000

    def within(self, low: int, high: int) -> int:
        return low

    def happens(self, probability: float) -> bool:
        return False

    def luck(self) -> float:
        return self._luck

    def chaos(self) -> int:
        return 1_800_000

    def one_of(self, choices: Sequence[T]) -> T:
        return choices[0]
