"""Checks the KYC circuit's rules, some of them only where all clocks agree and DynamoDB answered."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from settlement.http.circuit import Thresholds
from settlement.http.shared_circuit import CACHE_SECONDS
from tests.simulation.seeded.facts import demand, number, text
from tests.world.environment import NOW
from tests.world.expressions import Item

if TYPE_CHECKING:
    from tests.simulation.seeded.world import World

ROW = ("CIRCUIT", "kyc")
KNOWN_MS_MAX = CACHE_SECONDS * 1000 + 2_000
"""Maximum age of an environment's knowledge: its cache, plus the read's duration."""

CLOSES_MS_MAX = 75_000
"""Time for a scheduled check to close the circuit after recovery: a minute, and the call."""


@dataclass
class Knowledge:
    """An environment's knowledge of the circuit's row, and its calls' results."""

    row: Item | None = None
    """The row as last seen; None before any call and after an unanswered one."""

    reads: int = 0
    """Unanswered reads in this act."""

    unanswered: int = 0
    """Unanswered calls in this act."""

    puts: int = 0
    reported_at: int = -KNOWN_MS_MAX
    was_unreadable: bool = False
    """Whether an unreadable row lets the running call pass."""

    last: str = ""

    def called(self, name: str) -> None:
        self.row, self.last = None, name
        self.unanswered += 1
        self.reads += name == "get_item"
        self.puts += name == "put_item"

    def learned(self, row: Item | None) -> None:
        self.row = row
        self.unanswered -= 1
        self.reads -= self.last == "get_item"


@dataclass
class Act:
    name: str
    payment: str
    began: int
    puts: int
    known_before: Item | None


class CircuitRules:
    def __init__(self, world: "World", limits: Thresholds, *, clocks_agree: bool = False) -> None:
        self._world, self._limits, self._clocks_agree = world, limits, clocks_agree
        self.has_schedule = False
        self._acts: dict[Any, Act] = {}
        self._named: set[str] | None = None
        self._failing: set[str] = set()
        """Payments without an answer since the circuit last closed."""

        self._counted: set[str] = set()
        self._counting: set[int] = set()
        """Failing payments that DynamoDB has recorded since the circuit closed, and their environments."""

        self._taken = self._answers = self._taken_in_all = 0
        self._has_failed, self._head_start = False, 0
        """`_head_start`: failures that only the row counts, from an earlier life or for a probation."""

        self._changed_at = self._closed_at = self._unclosed_at = -KNOWN_MS_MAX
        self._probes: set[str] = set()

    @property
    def is_closed(self) -> bool:
        return text(self._row, "state") in (None, "CLOSED")

    @contextmanager
    def during(self, name: str, known: Knowledge) -> Iterator[None]:
        hub = self._world.hub
        process = hub.process
        known.reads = known.unanswered = 0
        payment = _name(self._world.cloud.about(process))
        self._acts[process] = Act(name, payment, hub.now, known.puts, known.row)
        if name == "failed" and payment:
            self._failing.add(payment)
        self._has_failed = self._has_failed or name == "failed"
        self._answers += name == "answered"
        yield
        del self._acts[process]

    # Commits.

    def committed(self, old: Item | None, new: Item) -> None:
        act = self._acts[self._world.hub.process]
        named = self._names(old)
        was_closed, is_closed = (text(row, "state") in (None, "CLOSED") for row in (old, new))
        demand(number(new, "version") == number(old, "version") + 1, "no change of the circuit is lost")
        has_cause = self._has_failed or old
        demand(has_cause, "while the provider answers, the circuit's row is not written", act.payment)
        if was_closed:
            demand(act.name != "admit", "a closed circuit is written for outcomes only", act.payment)
        if text(new, "probe") and text(new, "probe") != text(old, "probe"):
            self._gives_lease(old, new, act.payment, named)
        elif was_closed:
            self._counts(old, new, act, named)
        elif is_closed:
            demand(act.name == "answered", "an answered probe alone closes the circuit", act.payment)
            named.clear()
            self._forget()
            self._head_start = 0 if act.payment else self._limits.failures - 1
            self._closed_at = self._world.hub.now
        elif act.name == "failed" and act.payment:
            named.add(act.payment)
        if act.name == "make due":
            changed = {name for name in {*old, *new} if old.get(name) != new.get(name)} if old else set()
            is_sooner = number(new, "opened_at") < number(old, "opened_at")
            demand(
                changed == {"version", "opened_at"} and text(new, "state") == "OPEN" and is_sooner,
                "an order makes an open circuit due for its probe, and changes nothing else",
                *sorted(changed),
            )
        if was_closed and not is_closed:
            self._unclosed_at = self._world.hub.now
        self._changed_at = self._world.hub.now

    def _gives_lease(self, old: Item | None, new: Item, payment: str, named: set[str]) -> None:
        """Check a new probe, but its time only if clocks agree."""
        self._probes.add(text(new, "probe") or "")
        demand(payment not in named, "each probe is of another payment than those that failed", payment)
        if self._clocks_agree:
            waited = self._seconds - _since(old)
            demand(
                waited >= self._limits.recovery_seconds, "one probe at a time, after each recovery", payment
            )

    def _counts(self, old: Item | None, new: Item, act: Act, named: set[str]) -> None:
        before, after = number(old, "failure_count"), number(new, "failure_count")
        if act.name == "answered":
            demand(after < before, "an answer is written only to lower the count", act.payment)
        elif number(new, "failed_at") - number(old, "failed_at") > self._limits.within_seconds:
            named.clear()
            self._forget()
            before = 0
        is_new = act.name == "failed" and act.payment not in named
        taken = before + is_new - after
        demand(taken >= 0, "a payment that fails again and again counts once", act.payment)
        self._taken += taken
        self._taken_in_all += taken
        demand(self._taken_in_all <= self._answers, "no answer is taken from the count twice", act.payment)
        if act.name == "failed":
            named.add(act.payment)
        if text(new, "state") == "OPEN":
            enough = self._head_start + len(self._failing) >= self._limits.failures
            demand(enough, "a poisoned payment alone never opens the circuit", *sorted(self._failing))

    # Acts.

    def admitted(self, known: Knowledge, probe: str | None) -> None:
        """Check an admitted probe, or another call if clocks agree and the row was readable.

        Another clock can trust its knowledge longer. An unreadable row admits calls.
        """
        act = self._acts[self._world.hub.process]
        known.was_unreadable = bool(known.reads)
        if probe:
            demand(probe in self._probes, "a probe that is not on record is none", act.payment)
        elif self._clocks_agree and not known.reads and not self.is_closed:
            was_closed = self._unclosed_at >= act.began - KNOWN_MS_MAX
            demand(was_closed, "an open circuit lets only probes through", act.payment)

    def made_due(self) -> None:
        """Check that a person's order makes an open circuit due for a probe, if clocks agree."""
        act = self._acts[self._world.hub.process]
        if not self._clocks_agree or text(self._row, "state") != "OPEN" or self._changed_at > act.began:
            return
        waited = self._seconds - _since(self._row)
        demand(waited >= self._limits.recovery_seconds, "an order makes an open circuit due for its probe")

    def refused(self, known: Knowledge) -> None:
        """Check a refused call, but its time only if clocks agree, as others prolong a recovery."""
        act = self._acts[self._world.hub.process]
        demand(not known.reads, "a circuit that cannot be read is no outage", act.payment)
        if not self._clocks_agree or known.unanswered:
            return
        if self.is_closed:
            is_late = act.began > self._closed_at + KNOWN_MS_MAX
            demand(not is_late, "all calls pass soon after the circuit has closed", act.payment)
        elif act.payment not in self._names(self._row) and self._changed_at < act.began:
            waited = _seconds(act.began) - _since(self._row)
            is_due = waited >= self._limits.recovery_seconds + CACHE_SECONDS
            demand(not is_due, "after each recovery a payment that has not failed is the probe", act.payment)

    def failed(self, known: Knowledge, probe: str | None) -> None:
        """Check that a recorded failure is counted.

        If clocks agree, at most as many payments fail as open the circuit, plus one for each answer that
        lowered the count, plus one per other environment.
        """
        act = self._acts[self._world.hub.process]
        if known.unanswered:
            return
        if probe:
            demand(text(self._row, "probe") != probe, "a failed probe ends", act.payment)
            return
        is_latest = number(known.row or act.known_before, "version") == number(self._row, "version")
        if self.is_closed and is_latest:
            is_counted = act.payment in self._names(self._row)
            demand(is_counted, "each payment without an answer is counted", act.payment)
        if self._clocks_agree and not known.was_unreadable:
            self._counted.add(act.payment)
            self._counting.add(id(known))
            most = self._limits.failures + self._taken + len(self._counting) - 1
            demand(len(self._counted) <= most, "a dead provider gets few calls", most, *sorted(self._counted))

    def answered(self, known: Knowledge, probe: str | None) -> None:
        """Check that an environment that knows of failures reports an answer."""
        act, now = self._acts[self._world.hub.process], self._world.hub.now
        has_put = known.puts > act.puts
        if probe:
            ended = known.unanswered or text(self._row, "probe") != probe
            demand(ended, "an answered probe ends", act.payment)
            return
        counts = number(act.known_before, "failure_count")
        if self._clocks_agree and counts and act.began >= known.reported_at + KNOWN_MS_MAX:
            demand(has_put, "an answer is reported to a circuit that counts failures", act.payment)
        if has_put:
            known.reported_at = now

    def at_the_end(self) -> None:
        """Check that the scheduled health check closes the circuit.

        Clocks must agree, because a fast clock can have opened it.
        """
        if not self._clocks_agree or not self.has_schedule or self.is_closed:
            return
        hub = self._world.hub
        hub.run(hub.now + self._limits.recovery_seconds * 1000 + CLOSES_MS_MAX, lambda: self.is_closed)
        demand(self.is_closed, "the circuit around a healthy provider closes without payments")

    @property
    def _row(self) -> Item | None:
        return self._world.table.items.get(ROW)

    @property
    def _seconds(self) -> int:
        return _seconds(self._world.hub.now)

    def _names(self, row: Item | None) -> set[str]:
        if self._named is None:
            self._named = set((text(row, "failed") or "").split())
            self._head_start = number(row, "failure_count")
        return self._named

    def _forget(self) -> None:
        self._failing = {act.payment for act in self._acts.values() if act.name == "failed"}
        self._counted.clear()
        self._counting.clear()
        self._taken = self._head_start = 0


def _name(key: str | None) -> str:
    """Return a payment's name on the row; empty for a health check."""
    return sha256(key.encode()).hexdigest()[:8] if key else ""


def _seconds(milliseconds: int) -> int:
    return int(NOW.timestamp()) + milliseconds // 1000


def _since(row: Item | None) -> int:
    return number(row, "probed_at" if text(row, "state") == "HALF_OPEN" else "opened_at")
