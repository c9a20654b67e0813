"""Statuses of a settlement, its steps, and the legal transitions."""

from enum import StrEnum


class Status(StrEnum):
    """The `status` attribute of a settlement's row."""

    PROCESSING = "PROCESSING"
    SETTLED = "SETTLED"
    REJECTED = "REJECTED"
    COMPENSATING = "COMPENSATING"
    COMPENSATED = "COMPENSATED"
    LIMBO = "LIMBO"


class Step(StrEnum):
    """The forward steps, in the order in which they commit."""

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
        """The name of the journal entry that reverses this step."""
        return f"compensate:{self.value}"

    @property
    def slot(self) -> str:
        """The attribute of the settlement's row with the time at which this step committed."""
        return f"{self.value}_at"

    @property
    def reversal_slot(self) -> str:
        """The attribute of the settlement's row with the time at which this step was reversed."""
        return f"{self.value}_reversed_at"


REVERSIBLE = (Step.FEE, Step.RELEASE, Step.HOLD)
"""The steps that move money, in the order of their reversal."""

TRANSITIONS: dict[Status, frozenset[Status]] = {
    Status.PROCESSING: frozenset({Status.SETTLED, Status.REJECTED, Status.COMPENSATING}),
    Status.SETTLED: frozenset({Status.COMPENSATING}),
    Status.REJECTED: frozenset(),
    Status.COMPENSATING: frozenset({Status.COMPENSATED, Status.LIMBO}),
    Status.COMPENSATED: frozenset(),
    Status.LIMBO: frozenset({Status.COMPENSATING, Status.SETTLED}),
}
"""The legal transitions. Only a person's resolution leads out of LIMBO."""

FINISHED = frozenset({Status.SETTLED, Status.REJECTED, Status.COMPENSATED})
"""The statuses in which no execution works on a settlement. A reversal may reopen a SETTLED one."""
