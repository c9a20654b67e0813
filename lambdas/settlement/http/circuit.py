"""A provider's circuit, as pure functions.

A failing payment adds one to the count, a report of answers subtracts up to `REPORTED_MAX`, and at `failures`
the circuit opens:

    payments        A   B   B   .   .   C   D   E   F   G
    answered?       no  no  no  yes yes no  no  no  no  no
    count       0   1   2   2   1   0   1   2   3   4   5 = failures -> OPEN

Over any stretch of calls, it opens once at least `failures` different payments have failed, and they are more
than half of the reported outcomes. A dead provider is found at its first calls, however many answers came
before.
"""

import hashlib
from dataclasses import dataclass, replace
from enum import StrEnum

KYC, BANK = "kyc", "bank"
NAMES = (KYC, BANK)
"""Names of all shared circuits. The proof refuses other circuit rows."""

PROBE = "probe"
"""A person's order to probe the provider now."""

REPORTED_MAX = 2
"""Maximum answers that a report subtracts. With 1, a fifth of unanswerable payments would open the
circuit. With many, answers from before an outage would delay its opening.
"""

FAILED_MAX = 100
"""Maximum recent failing payments on the row: 900 bytes, so a write costs one unit."""

CLOCK_SECONDS_MAX = 2
"""Clock skew above which a time counts as wrong."""

HEALTH = ""
"""Name of a health check as a probe's candidate, never among the failed payments."""


class State(StrEnum):
    """State of a circuit. In HALF_OPEN, one probe is under way."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Limits of a circuit. Failures are forgotten `within_seconds` after the latest failure.

    A probe may begin `recovery_seconds` after the circuit opened or the previous probe began.
    """

    failures: int
    within_seconds: int
    recovery_seconds: int


@dataclass(frozen=True, kw_only=True)
class Circuit:
    """A circuit's row. Times are in seconds, by the writer's clock."""

    version: int = 0
    state: State = State.CLOSED
    count: int = 0
    failed: tuple[str, ...] = ()
    failed_at: int | None = None
    opened_at: int | None = None
    probed_at: int | None = None
    probe: str | None = None


def payment(key: str) -> str:
    """A payment's short name. Among 100 payments, the chance of a shared name is 1 in 800,000."""
    return hashlib.sha256(key.encode()).hexdigest()[:8]


def after_failure(circuit: Circuit, failing: str, answers: int, now: int, limits: Thresholds) -> Circuit:
    """Subtract the environment's unreported `answers`, then count the payment `failing`."""
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
    """Subtract answers from the count. Failed payments stay known, so that each counts once."""
    if circuit.state is not State.CLOSED:
        return circuit
    return replace(circuit, count=max(0, circuit.count - min(answers, REPORTED_MAX)))


def may_probe(circuit: Circuit, candidate: str, now: int, limits: Thresholds) -> bool:
    """Whether the payment `candidate` may be the probe now.

    A payment that failed recently proves nothing about other payments.
    """
    began = circuit.probed_at if circuit.state is State.HALF_OPEN else circuit.opened_at
    return now - (began or 0) >= limits.recovery_seconds and candidate not in circuit.failed


def due_now(circuit: Circuit, now: int, limits: Thresholds) -> Circuit:
    if circuit.state is not State.OPEN:
        return circuit
    return replace(circuit, opened_at=min(circuit.opened_at or 0, now - limits.recovery_seconds))


def with_probe(circuit: Circuit, probe: str, now: int) -> Circuit:
    return replace(circuit, state=State.HALF_OPEN, probe=probe, probed_at=now)


def after_probe(
    circuit: Circuit, probe: str, candidate: str, now: int, limits: Thresholds, *, answered: bool
) -> Circuit:
    """End a probe, unless another probe has replaced it.

    After a health check, one failing payment reopens the circuit, because no payment was answered yet.
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
    """Replace a fast clock's future times by `now`. The recovery time restarts."""
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
