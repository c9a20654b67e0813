"""The circuit around the KYC provider: its state, and each change of it as a pure function.

It weighs payments that get no answer against answers. A failing payment adds one to the count, a report of
answers takes up to `REPORTED_MAX` from it, and at `failures` the circuit opens:

    payments        A   B   B   .   .   C   D   E   F   G
    answered?       no  no  no  yes yes no  no  no  no  no
    count       0   1   2   2   1   0   1   2   3   4   5 = failures -> OPEN

So it opens once more than half of the outcomes that it is told of are failures of different payments, over
any stretch of calls, with `failures` of them at least. A dead provider is found by its first calls, however
many answers came before; a payment that fails again and again counts once.
"""

import hashlib
from dataclasses import dataclass, replace
from enum import StrEnum

PROBE = "probe"
"""The order of a person to look now whether the KYC provider is back."""

REPORTED_MAX = 2
"""The answers that one report takes back, at most. With one only, a fifth of poisoned payments would open the
circuit; with many, the answers from before an outage would delay its opening.
"""

FAILED_MAX = 100
"""The failing payments that the row names, the latest: 900 bytes, so that a write costs one unit."""

CLOCK_SECONDS_MAX = 2
"""The time by which a clock may be ahead of another's before it counts as wrong."""

HEALTH = ""
"""The name of a probe that asks about no payment: it is never among those that failed."""


class State(StrEnum):
    """The circuit's state. Half open, one probe is under way."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """When the circuit opens, and when it lets a probe through.

    It opens when failing payments outnumber the reported answers by `failures`; they are forgotten
    `within_seconds` after the latest. After `recovery_seconds` one call passes as a probe.
    """

    failures: int
    within_seconds: int
    recovery_seconds: int


@dataclass(frozen=True, kw_only=True)
class Circuit:
    """The circuit, as all environments share it. Times are in seconds, as the writer's clock had them."""

    version: int = 0
    state: State = State.CLOSED
    count: int = 0
    failed: tuple[str, ...] = ()
    failed_at: int | None = None
    opened_at: int | None = None
    probed_at: int | None = None
    probe: str | None = None


def payment(key: str) -> str:
    """Return the short name of a payment: two of 100 share it once in 800,000 series."""
    return hashlib.sha256(key.encode()).hexdigest()[:8]


def after_failure(circuit: Circuit, failing: str, answers: int, now: int, limits: Thresholds) -> Circuit:
    """Count a payment without an answer, after the answers that its environment has not reported.

    A late failure leaves an open circuit as it is: it says nothing new.
    """
    if circuit.state is not State.CLOSED:
        return circuit
    last = circuit.failed_at or 0
    if last and now - last > limits.within_seconds:
        circuit = replace(circuit, count=0, failed=())
    circuit = after_answers(circuit, answers)
    if failing in circuit.failed:
        return circuit
    # A clock that is behind must not make the others' failures look old.
    circuit = replace(
        circuit, count=circuit.count + 1, failed=_with(circuit, failing), failed_at=max(last, now)
    )
    if circuit.count < limits.failures:
        return circuit
    return replace(circuit, state=State.OPEN, opened_at=circuit.failed_at)


def after_answers(circuit: Circuit, answers: int) -> Circuit:
    """Take reported answers from the count. The payments that failed stay known: each counts once."""
    if circuit.state is not State.CLOSED:
        return circuit
    return replace(circuit, count=max(0, circuit.count - min(answers, REPORTED_MAX)))


def may_probe(circuit: Circuit, candidate: str, now: int, limits: Thresholds) -> bool:
    """Return whether the circuit may send a payment as its probe.

    One that has failed lately may not: its failure would say nothing about the others.
    """
    began = circuit.probed_at if circuit.state is State.HALF_OPEN else circuit.opened_at
    return now - (began or 0) >= limits.recovery_seconds and candidate not in circuit.failed


def due_now(circuit: Circuit, now: int, limits: Thresholds) -> Circuit:
    """Let an open circuit have its probe now. A probe that is under way keeps its lease."""
    if circuit.state is not State.OPEN:
        return circuit
    return replace(circuit, opened_at=min(circuit.opened_at or 0, now - limits.recovery_seconds))


def with_probe(circuit: Circuit, probe: str, now: int) -> Circuit:
    """Give the one probe its lease."""
    return replace(circuit, state=State.HALF_OPEN, probe=probe, probed_at=now)


def after_probe(
    circuit: Circuit, probe: str, candidate: str, now: int, limits: Thresholds, *, answered: bool
) -> Circuit:
    """End a probe, unless another one has replaced it.

    A provider that only says that it is healthy has answered no payment: the next failing one opens the
    circuit again.
    """
    if circuit.probe != probe:
        return circuit
    ended = replace(circuit, probe=None)
    if not answered:
        failed = circuit.failed if candidate == HEALTH else _with(circuit, candidate)
        return replace(ended, state=State.OPEN, opened_at=now, failed_at=now, failed=failed)
    trusted = 0 if candidate != HEALTH else limits.failures - 1
    closed_at = now if trusted else circuit.failed_at
    return replace(ended, state=State.CLOSED, opened_at=None, count=trusted, failed=(), failed_at=closed_at)


def in_time(circuit: Circuit, now: int) -> Circuit:
    """Return an unclosed circuit without times from a clock that is ahead: its recovery begins now."""
    latest = now + CLOCK_SECONDS_MAX
    opened_at, probed_at = circuit.opened_at, circuit.probed_at
    if circuit.state is State.CLOSED or max(opened_at or 0, probed_at or 0) <= latest:
        return circuit
    opened_at = now if opened_at and opened_at > latest else opened_at
    probed_at = now if probed_at and probed_at > latest else probed_at
    return replace(circuit, opened_at=opened_at, probed_at=probed_at)


def _with(circuit: Circuit, failing: str) -> tuple[str, ...]:
    others = (name for name in circuit.failed if name != failing)
    return (*others, failing)[-FAILED_MAX:]
