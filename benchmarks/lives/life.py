"""A life: the events of one payment, drawn from a seed.

A fault has a logical position: the step and the number of its try. So it applies to each way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random


class Step(StrEnum):
    """A step of a payment, or the reversal of one."""

    HOLD = "hold"
    VERIFY = "verify"
    RELEASE = "release"
    FEE = "fee"
    REFUND = "refund"
    RECLAIM = "reclaim"
    VOID = "void"


REVERSALS = frozenset({Step.REFUND, Step.RECLAIM, Step.VOID})


class Kind(StrEnum):
    """The fate of the write in a try of a step."""

    LOST = "commits, and its answer gets lost"
    DIES_BEFORE = "never leaves: its process dies before it"
    DIES_AFTER = "commits, and its process dies before it can say so"
    LATE = "times out, and arrives after the next try has answered"
    LATE_REVERSAL = "times out, and arrives after the reversal has begun"


FOR_EVER = -1
"""For `reversal_refused`: every try is refused, because the payer's account is closed."""

_REFUSED_TRIES = (0, 0, 0, 1, 2, 4, 10, FOR_EVER, FOR_EVER)
_FAULTS, _TRIES = (1, 1, 2, 3), (1, 1, 1, 2, 3)
_STEPS = (Step.HOLD, Step.VERIFY, Step.RELEASE, Step.FEE, Step.VOID)
_BURST_TRIES, _BURST_SHARE = 4, 0.15
_REJECTED_SHARE, _CLOSED_SHARE = 0.25, 0.25


@dataclass(frozen=True)
class Life:
    """The events of one payment.

    `payee_closed_from` is the number of the release's try at which the payee's account closes, or 0. The
    account reopens once the reversal has begun. `reversal_refused` is the number of tries of each reversal
    that the database refuses, or `FOR_EVER`.
    """

    seed: int
    is_rejected: bool = False
    payee_closed_from: int = 0
    reversal_refused: int = 0
    faults: Mapping[tuple[Step, int], Kind] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return the events, a line each."""
        lines = [f"{step}, try {number}: the write {kind}" for (step, number), kind in self.faults.items()]
        if self.is_rejected:
            lines.append("the KYC provider rejects the payment")
        if self.payee_closed_from:
            lines.append(f"the payee's account closes at try {self.payee_closed_from} of the release")
        if self.reversal_refused == FOR_EVER:
            lines.append("the payer's account closes for ever when a reversal begins")
        elif self.reversal_refused:
            lines.append(f"the database refuses the first {self.reversal_refused} tries of a reversal")
        return lines


def draw(seed: int) -> Life:
    """Return the life of a seed."""
    chance = Random(f"life {seed}")  # noqa: S311
    reason = chance.random()
    is_rejected = reason < _REJECTED_SHARE
    is_closed = not is_rejected and reason < _REJECTED_SHARE + _CLOSED_SHARE
    faults: dict[tuple[Step, int], Kind] = {}
    for _ in range(chance.choice(_FAULTS)):
        faults[chance.choice(_STEPS), chance.choice(_TRIES)] = chance.choice(list(Kind))
    if chance.random() < _BURST_SHARE:
        step, kind = chance.choice(_STEPS), chance.choice(list(Kind))
        faults |= {(step, number): kind for number in range(1, _BURST_TRIES + 1)}
    return Life(
        seed=seed,
        is_rejected=is_rejected,
        payee_closed_from=chance.choice((1, 2)) if is_closed else 0,
        reversal_refused=chance.choice(_REFUSED_TRIES),
        faults=dict(sorted(faults.items(), key=lambda fault: (list(Step).index(fault[0][0]), fault[0][1]))),
    )
