"""The states of a settlement, and the only ways from one to another."""

from enum import StrEnum


class Status(StrEnum):
    """What the `status` attribute of a settlement's row may say."""

    PROCESSING = "PROCESSING"
    SETTLED = "SETTLED"
    REJECTED = "REJECTED"
    COMPENSATING = "COMPENSATING"
    COMPENSATED = "COMPENSATED"
    LIMBO = "LIMBO"


class Step(StrEnum):
    """The forward steps that post a journal entry, in the order in which they must commit."""

    HOLD = "hold"
    VERIFY = "verify"
    RELEASE = "release"
    FEE = "fee"

    @property
    def previous(self) -> "Step | None":
        """The step that must have committed before this one; None for the first."""
        order = list(Step)
        position = order.index(self)
        return order[position - 1] if position else None

    @property
    def reversal(self) -> str:
        """What the journal calls the entry that reverses this step."""
        return f"compensate:{self.value}"


REVERSIBLE = (Step.FEE, Step.RELEASE, Step.HOLD)
"""The steps that move money, in the order in which they are reversed."""

TRANSITIONS: dict[Status, frozenset[Status]] = {
    Status.PROCESSING: frozenset({Status.SETTLED, Status.REJECTED, Status.COMPENSATING}),
    Status.SETTLED: frozenset({Status.COMPENSATING}),
    Status.REJECTED: frozenset(),
    Status.COMPENSATING: frozenset({Status.COMPENSATED, Status.LIMBO}),
    Status.COMPENSATED: frozenset(),
    Status.LIMBO: frozenset({Status.COMPENSATING, Status.SETTLED}),
}
"""Where each status may lead. A settlement leaves LIMBO by a person's resolution and in no other way."""
