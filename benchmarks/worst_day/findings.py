"""The figures of a played day, and its broken promises."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

SECONDS_MAX = 15
"""Longest time until a good payment is settled or given back."""

ENDED = ("SETTLED", "COMPENSATED", "REJECTED")
ENDING = ("BeginCompensation", "VoidHold", "ReclaimFunds", "RefundFee", "EnterLimbo", "RecoverStalled")
"""The functions that give money back, or have it given back."""


@dataclass(frozen=True)
class Paid:
    """One payment: when it was sent, in seconds of the day, how it ended, and after how many seconds."""

    sent_at: float
    hours: str
    is_good: bool
    status: str
    error: str
    seconds: float | None


@dataclass(frozen=True)
class Played:
    """A day: its payments, the calls that have reached the provider, and the states of the circuit.

    `calls` has each call's second and payment, `circuit` each change's second and state.
    `began_at` has the first second of each part of the day.
    """

    rate: float
    seconds: int
    began_at: Mapping[str, float]
    payments: Sequence[Paid]
    calls: Sequence[tuple[float, str]]
    circuit: Sequence[tuple[float, str]]
    throttled: Mapping[str, int]
    environments: int
    failures_to_open: int
    is_conserved: bool

    @property
    def asked_while_dead(self) -> int:
        """The number of payments whose calls reached the dead provider. Each can be tried three times."""
        return len({key for at, key in self.calls if self._is_dead(at)})

    @property
    def probes_while_dead(self) -> int:
        """The number of probes that the circuit sent to the dead provider."""
        return sum(state == "HALF_OPEN" and self._is_dead(at) for at, state in self.circuit)

    @property
    def asked_max(self) -> int:
        """The maximum of `asked_while_dead`, if the provider answered for hours before."""
        return self.failures_to_open + 3 * self.environments + self.probes_while_dead

    def _is_dead(self, at: float) -> bool:
        return self.began_at["dead"] <= at < self.began_at["back"]

    def faults(self, seconds_max: float = SECONDS_MAX) -> list[str]:
        """Return the promises that the day has broken."""
        good = [one for one in self.payments if one.is_good]
        slow = [one for one in good if one.seconds is None or one.seconds > seconds_max]
        late = [one for one in self.payments if one.error == "DeadlineExceeded"]
        lasting = [one for one in self.payments if one.status not in ENDED]
        found = [
            *([f"{len(slow)} good payments took more than {seconds_max} s"] if slow else []),
            *([f"{len(late)} payments were held to their deadline"] if late else []),
            *([f"{len(lasting)} payments never ended"] if lasting else []),
            *(
                f"{name} was throttled {self.throttled[name]} times"
                for name in ENDING
                if self.throttled[name]
            ),
        ]
        if self.asked_while_dead > self.asked_max:
            found.append(f"the dead provider was asked about {self.asked_while_dead} payments")
        return found if self.is_conserved else [*found, "money was lost or doubled"]

    def table(self) -> str:
        """Return a row for each part of the day: the good payments, how they ended, and their times."""
        lines = ["| part of the day | good payments | settled | given back | median, s | slowest, s |"]
        lines.append("|---|--:|--:|--:|--:|--:|")
        for hours in self.began_at:
            good = [one for one in self.payments if one.is_good and one.hours == hours]
            ends = Counter(one.status for one in good)
            times = sorted(one.seconds for one in good if one.seconds is not None) or [0.0]
            lines.append(
                f"| {hours} | {len(good)} | {ends['SETTLED']} | {ends['COMPENSATED']}"
                f" | {times[len(times) // 2]:.1f} | {times[-1]:.1f} |"
            )
        return "\n".join(lines)

    def write(self, path: Path) -> None:
        """Write the figures to a file, for the plot."""
        path.write_text(json.dumps(asdict(self)))


def read(path: Path) -> Played:
    """Return the figures in a file."""
    kept = json.loads(path.read_text())
    payments = [Paid(**one) for one in kept.pop("payments")]
    circuit = [(at, state) for at, state in kept.pop("circuit")]
    calls = [(at, key) for at, key in kept.pop("calls")]
    return Played(**kept, payments=payments, circuit=circuit, calls=calls)
